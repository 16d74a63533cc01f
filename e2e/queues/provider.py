"""The payment provider: every charge is a line of `charges`. It does not deduplicate."""
import pathlib, time
from once import Refused

def note(*words):
    with open("charges", "a") as file: file.write(" ".join(words) + "\n")

def charge(order, amount, key):
    if order == "order-3": raise Refused("the card is declined")
    if order == "order-11" and not pathlib.Path("lost").exists():
        pathlib.Path("lost").touch()
        raise ConnectionError("lost on the way there")
    note("charged", order, amount, key)
    time.sleep(0.3)  # Time for the worker to be killed.
    if order == "order-7": raise TimeoutError("lost on the way back")
    note("answered", order)
    return {"charge": f"ch-{order}"}
