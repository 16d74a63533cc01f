"""Charges orders through the ledger in PostgreSQL. `writer.py URL COUNT`"""

import random
import sys
import time
import uuid

import psycopg

LANGUAGE = "python"


def charge(db, provider, number):
    """Charges one order. Returns whether it is charged."""
    key = ("shop", "charge", f"{LANGUAGE}-{number}")
    begin = "SELECT * FROM driftq_begin(%s, %s, %s, 'h', 'retry', %s, '1 second')"
    with db.transaction():
        decision, fence, downstream_key, *_, response, _ = db.execute(begin, (*key, str(uuid.uuid4()))).fetchone()
    if decision == "IN_PROGRESS":
        return False
    if decision == "REPLAY":
        assert bytes(response).decode() == f"act-{downstream_key}", f"{key} is replayed as {response}"
        return True
    assert decision == "EXECUTE", f"{key}: {decision}"
    provider.execute("INSERT INTO provider_calls VALUES (%s)", (downstream_key,))
    provider.execute("INSERT INTO provider_acts VALUES (%s) ON CONFLICT DO NOTHING", (downstream_key,))
    outcome = f"act-{downstream_key}".encode()
    finish = "SELECT driftq_finish(%s, %s, %s, %s, 'SUCCEEDED', 0, %s)"
    while True:
        with db.transaction() as transaction:
            is_wrong = random.random() < 0.1
            value = f"{'rolled back' if is_wrong else LANGUAGE} {number}".encode()
            db.execute("SELECT driftq_enqueue('receipts', %s)", (value,))
            db.execute("INSERT INTO orders VALUES (%s, %s, %s)", (LANGUAGE, number, outcome.decode()))
            finished = db.execute(finish, (*key, fence, outcome)).fetchone()[0]
            if is_wrong or finished != "DONE":
                raise psycopg.Rollback(transaction)
        if finished != "DONE":
            return False
        if not is_wrong:
            return True


def main():
    url, count = sys.argv[1], int(sys.argv[2])
    with psycopg.connect(url, autocommit=True) as db, psycopg.connect(url, autocommit=True) as provider:
        left = list(range(count))
        random.shuffle(left)
        while left:
            left = [number for number in left if not charge(db, provider, number)]
            time.sleep(0.05)


main()
