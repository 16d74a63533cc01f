"""Tests of DriftQ workers.

A :class:`Broker` is the real server in a process of its own. It stores in memory, and the test advances its
clock, so a retry after an hour takes no hour. ::

    def test_a_declined_card_is_not_charged_twice():
        with broker("orders", "receipts") as server:
            server.client.produce("orders", {"id": "1", "cents": 1200})
            server.fail(next="commit", how="lost_reply")
            server.drain(make_worker(server.url))
            assert server.values("receipts") == ['{"charge":"ch_1"}']

The server is the program ``driftq`` in ``DRIFTQ_BIN``, or the one in ``PATH``. For pytest, the fixture
``driftq_broker`` is a server without topics.
"""

from ._broker import Broker, broker
from ._proxy import How

__all__ = ["Broker", "How", "broker"]
