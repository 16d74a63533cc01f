"""Is not run: mypy checks it. What an effect returns is known to the caller."""

from dataclasses import dataclass
from typing import assert_type

from driftq import Context, Execution, Happened, NotHappened, SyncContext, Worker


@dataclass
class Charge:
    id: str


app = Worker("http://127.0.0.1:8080")


async def acharge(e: Execution) -> str:
    return ""


def charge(e: Execution) -> int:
    return 1


@app.handler("orders", group="a")
async def a(order: dict[str, int], ctx: Context) -> None:
    assert_type(await ctx.effect("k", acharge), str)
    assert_type(await ctx.effect("k", charge), int)
    assert_type(await ctx.effect("k", charge, returns=Charge), Charge)
    assert_type(await ctx.effect("k", lambda e: acharge(e)), str)  # noqa: PLW0108


@app.handler("orders", group="b")
def b(order: dict[str, int], ctx: SyncContext) -> None:
    assert_type(ctx.effect("k", charge), int)
    assert_type(ctx.effect("k", lambda e: Charge("1"), returns=Charge), Charge)

    def probe(e: Execution) -> Happened[int] | NotHappened:
        return Happened(1)

    ctx.effect("k", charge, on_doubt="probe", probe=probe)
    ctx.effect("k", charge, on_doubt="prob")  # type: ignore[call-overload]
