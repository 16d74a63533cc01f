"""Sends twenty orders and prints the result of each."""
import json
from jobs import pay

waiting = {order: pay.delay(order, "12") for order in (f"order-{number}" for number in range(20))}
print("sent", flush=True)
ended = {order: result.get(propagate=False) for order, result in waiting.items()}
print(json.dumps({order: str(end) if isinstance(end, Exception) else end for order, end in ended.items()}))
