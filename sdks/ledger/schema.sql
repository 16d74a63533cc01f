-- The effect ledger and the outbox of DriftQ in your own PostgreSQL (14 or later).
--
-- The functions run in the transaction of their caller, so your write, the outcome and the messages
-- are one commit. They decide under a row lock. A reply counts once the transaction has committed:
-- with synchronous replication, the lock makes that commit wait until the row is replicated.
--
-- Under REPEATABLE READ and SERIALIZABLE, a concurrent call for the same key ends with SQLSTATE 40001.
-- Repeat the transaction. A key that was created after the snapshot is NOT_FOUND or STALE.

-- Fences grow across the whole table, so that the fence of a key that has expired is never issued again.
CREATE SEQUENCE driftq_fence;

CREATE TABLE idempotency_keys (
    principal text NOT NULL CHECK (octet_length(principal) BETWEEN 1 AND 256),
    -- What is done, for example `charge`, or the full method of a gRPC request.
    operation text NOT NULL CHECK (octet_length(operation) BETWEEN 1 AND 256),
    idempotency_key text NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 256),
    request_hash text NOT NULL,
    -- What to do when the outcome is unknown: execute again, ask the provider, or wait for a person.
    on_doubt text NOT NULL CHECK (on_doubt IN ('retry', 'probe', 'park')),
    -- How long the provider remembers the downstream key, counted from the first execution.
    provider_window interval CHECK (provider_window > '0'),
    ttl interval NOT NULL CHECK (ttl > '0'),
    status text NOT NULL
        CHECK (status IN ('IN_PROGRESS', 'UNKNOWN', 'SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE')),
    -- Grows with each execution. Only the holder of the current fence can finish.
    fence bigint NOT NULL,
    -- Of the begin that has the current fence.
    nonce text,
    -- Whether that begin was for an effect in doubt.
    in_doubt boolean NOT NULL DEFAULT false,
    lease_until timestamptz NOT NULL,
    executed_at timestamptz NOT NULL,
    response_code integer NOT NULL DEFAULT 0,
    response bytea,
    error text,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (principal, operation, idempotency_key)
);

CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)
    WHERE status IN ('SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE');

CREATE TYPE driftq_decision AS (
    -- EXECUTE, REPLAY, RETRYABLE, IN_PROGRESS, PROBE, PARKED, CONFLICT or NOT_FOUND.
    decision text,
    fence bigint,
    -- The idempotency key for the provider. It is the same for every execution.
    downstream_key text,
    lease_until timestamptz,
    -- Whether an earlier execution has an unknown outcome.
    in_doubt boolean,
    -- The recorded outcome.
    status text,
    response_code integer,
    response bytea,
    error text
);

-- The reply `decision` for a key.
CREATE FUNCTION driftq_reply(decision text, is_in_doubt boolean, k idempotency_keys)
RETURNS driftq_decision LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT ROW(
        decision, k.fence,
        'dq_' || left(encode(sha256(convert_to(
            length(k.principal) || ':' || k.principal || length(k.operation) || ':' || k.operation
            || k.idempotency_key, 'UTF8')), 'hex'), 40),
        k.lease_until, is_in_doubt, k.status, k.response_code, k.response, k.error
    )::driftq_decision
$$;

CREATE FUNCTION driftq_check_lease(lease interval) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF lease > '0' IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = format('lease is %L; it must be positive', lease);
    END IF;
END $$;

-- Gives the key, locked by the caller, to a new execution.
CREATE FUNCTION driftq_execute(
    decision text, is_in_doubt boolean, k idempotency_keys, nonce text, lease interval
) RETURNS driftq_decision LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE idempotency_keys SET
        status = 'IN_PROGRESS', fence = nextval('driftq_fence'), nonce = driftq_execute.nonce,
        in_doubt = is_in_doubt, lease_until = clock_timestamp() + lease,
        response_code = 0, response = NULL, error = NULL
    WHERE principal = k.principal AND operation = k.operation
        AND idempotency_key = k.idempotency_key AND fence = k.fence
    RETURNING * INTO STRICT k;
    RETURN driftq_reply(decision, is_in_doubt, k);
END $$;

-- The reply to a begin (`again` is false) or a reacquire for a key that is locked by the caller.
CREATE FUNCTION driftq_decide(
    k idempotency_keys, again boolean, nonce text, lease interval
) RETURNS driftq_decision LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    is_within_window boolean :=
        k.provider_window IS NULL OR k.executed_at + k.provider_window > clock_timestamp();
BEGIN
    IF k.status IN ('SUCCEEDED', 'FAILED_FINAL') THEN
        RETURN driftq_reply('REPLAY', false, k);
    ELSIF k.status = 'FAILED_RETRYABLE' AND again THEN
        RETURN driftq_execute('EXECUTE', false, k, nonce, lease);
    ELSIF k.status = 'FAILED_RETRYABLE' THEN
        RETURN driftq_reply('RETRYABLE', false, k);
    ELSIF k.status = 'IN_PROGRESS' AND k.lease_until > clock_timestamp() THEN
        IF k.nonce = nullif(driftq_decide.nonce, '') THEN
            -- The holder, whose reply was lost, gets the same reply again.
            RETURN driftq_reply(CASE WHEN k.in_doubt AND k.on_doubt = 'probe' THEN 'PROBE'
                ELSE 'EXECUTE' END, k.in_doubt, k);
        END IF;
        RETURN driftq_reply('IN_PROGRESS', false, k);
    ELSIF k.on_doubt = 'probe' THEN
        RETURN driftq_execute('PROBE', true, k, nonce, lease);
    ELSIF k.on_doubt = 'retry' AND is_within_window THEN
        RETURN driftq_execute('EXECUTE', true, k, nonce, lease);
    END IF;
    RETURN driftq_reply('PARKED', true, k);
END $$;

-- Requests the right to execute.
CREATE FUNCTION driftq_begin(
    principal text, operation text, idempotency_key text, request_hash text, on_doubt text,
    nonce text DEFAULT NULL, lease interval DEFAULT '30 seconds', ttl interval DEFAULT '7 days',
    provider_window interval DEFAULT NULL
) RETURNS driftq_decision LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    k idempotency_keys;
BEGIN
    PERFORM driftq_check_lease(driftq_begin.lease);
    LOOP
        INSERT INTO idempotency_keys (
            principal, operation, idempotency_key, request_hash, on_doubt, provider_window, ttl,
            status, fence, nonce, lease_until, executed_at, expires_at
        ) VALUES (
            driftq_begin.principal, driftq_begin.operation, driftq_begin.idempotency_key,
            driftq_begin.request_hash, driftq_begin.on_doubt, driftq_begin.provider_window,
            driftq_begin.ttl, 'IN_PROGRESS', nextval('driftq_fence'), driftq_begin.nonce,
            clock_timestamp() + driftq_begin.lease, clock_timestamp(),
            clock_timestamp() + driftq_begin.ttl
        ) ON CONFLICT DO NOTHING RETURNING * INTO k;
        IF FOUND THEN
            -- The insert may have waited for another transaction, and the lease begins now.
            UPDATE idempotency_keys AS i SET
                lease_until = clock_timestamp() + driftq_begin.lease, executed_at = clock_timestamp()
            WHERE i.principal = k.principal AND i.operation = k.operation
                AND i.idempotency_key = k.idempotency_key AND i.fence = k.fence
                AND i.executed_at < clock_timestamp() - interval '100 milliseconds';
            SELECT * INTO STRICT k FROM idempotency_keys AS i
            WHERE i.principal = k.principal AND i.operation = k.operation
                AND i.idempotency_key = k.idempotency_key;
            RETURN driftq_reply('EXECUTE', false, k);
        END IF;
        -- The lock is what makes the commit of a replay wait for replication.
        SELECT * INTO k FROM idempotency_keys AS i
        WHERE i.principal = driftq_begin.principal AND i.operation = driftq_begin.operation
            AND i.idempotency_key = driftq_begin.idempotency_key
        FOR UPDATE;
        IF FOUND AND (k.status IN ('IN_PROGRESS', 'UNKNOWN') OR k.expires_at > clock_timestamp()) THEN
            IF k.request_hash IS DISTINCT FROM driftq_begin.request_hash THEN
                RETURN driftq_reply('CONFLICT', false, k);
            END IF;
            RETURN driftq_decide(k, false, driftq_begin.nonce, driftq_begin.lease);
        END IF;
        -- Its outcome has expired.
        DELETE FROM idempotency_keys AS i
        WHERE i.principal = driftq_begin.principal AND i.operation = driftq_begin.operation
            AND i.idempotency_key = driftq_begin.idempotency_key AND i.fence = k.fence
            AND i.status = k.status;
    END LOOP;
END $$;

-- Like driftq_begin, for a key that is there. It also executes again what has failed and may be
-- executed again.
CREATE FUNCTION driftq_reacquire(
    principal text, operation text, idempotency_key text, request_hash text,
    nonce text DEFAULT NULL, lease interval DEFAULT '30 seconds'
) RETURNS driftq_decision LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    k idempotency_keys;
BEGIN
    PERFORM driftq_check_lease(driftq_reacquire.lease);
    SELECT * INTO k FROM idempotency_keys AS i
    WHERE i.principal = driftq_reacquire.principal AND i.operation = driftq_reacquire.operation
        AND i.idempotency_key = driftq_reacquire.idempotency_key
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN driftq_reply('NOT_FOUND', false, NULL);
    ELSIF k.request_hash IS DISTINCT FROM driftq_reacquire.request_hash THEN
        RETURN driftq_reply('CONFLICT', false, k);
    END IF;
    RETURN driftq_decide(k, true, driftq_reacquire.nonce, driftq_reacquire.lease);
END $$;

-- Records the outcome of an execution: SUCCEEDED, FAILED_FINAL, FAILED_RETRYABLE or UNKNOWN.
-- Returns DONE, STALE (a later execution has the key), CONFLICT (another outcome is recorded) or
-- NOT_FOUND. Unless it is DONE, roll back.
CREATE FUNCTION driftq_finish(
    principal text, operation text, idempotency_key text, fence bigint, status text,
    response_code integer DEFAULT 0, response bytea DEFAULT NULL, error text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    k idempotency_keys;
BEGIN
    IF driftq_finish.status IN ('SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE', 'UNKNOWN') IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'status is %L; use SUCCEEDED, FAILED_FINAL, FAILED_RETRYABLE or UNKNOWN', driftq_finish.status);
    END IF;
    SELECT * INTO k FROM idempotency_keys AS i
    WHERE i.principal = driftq_finish.principal AND i.operation = driftq_finish.operation
        AND i.idempotency_key = driftq_finish.idempotency_key
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'NOT_FOUND';
    ELSIF k.fence IS DISTINCT FROM driftq_finish.fence THEN
        RETURN 'STALE';
    ELSIF k.status NOT IN ('IN_PROGRESS', 'UNKNOWN') THEN
        RETURN CASE
            WHEN (k.status, k.response_code, k.response, k.error)
                IS NOT DISTINCT FROM (driftq_finish.status, driftq_finish.response_code,
                    driftq_finish.response, driftq_finish.error) THEN 'DONE'
            ELSE 'CONFLICT'
        END;
    END IF;
    UPDATE idempotency_keys AS i SET
        status = driftq_finish.status, response_code = driftq_finish.response_code,
        response = driftq_finish.response, error = driftq_finish.error,
        expires_at = clock_timestamp() + i.ttl
    WHERE i.principal = k.principal AND i.operation = k.operation
        AND i.idempotency_key = k.idempotency_key AND i.fence = driftq_finish.fence;
    RETURN 'DONE';
END $$;

-- Extends the lease of an execution. Returns DONE or STALE.
CREATE FUNCTION driftq_extend(
    principal text, operation text, idempotency_key text, fence bigint,
    lease interval DEFAULT '30 seconds'
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM driftq_check_lease(driftq_extend.lease);
    -- The lock first: the lease is counted from the time when it is held.
    PERFORM FROM idempotency_keys AS i
    WHERE i.principal = driftq_extend.principal AND i.operation = driftq_extend.operation
        AND i.idempotency_key = driftq_extend.idempotency_key
    FOR UPDATE;
    UPDATE idempotency_keys AS i SET lease_until = clock_timestamp() + driftq_extend.lease
    WHERE i.principal = driftq_extend.principal AND i.operation = driftq_extend.operation
        AND i.idempotency_key = driftq_extend.idempotency_key AND i.fence = driftq_extend.fence
        AND i.status = 'IN_PROGRESS' AND i.lease_until > clock_timestamp();
    RETURN CASE WHEN FOUND THEN 'DONE' ELSE 'STALE' END;
END $$;

-- Records what a person found out about an effect in doubt. `fence` is the one that is in doubt.
-- Returns DONE, STALE, NOT_IN_DOUBT or NOT_FOUND.
CREATE FUNCTION driftq_resolve(
    principal text, operation text, idempotency_key text, fence bigint, status text,
    response_code integer DEFAULT 0, response bytea DEFAULT NULL, error text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    k idempotency_keys;
BEGIN
    SELECT * INTO k FROM idempotency_keys AS i
    WHERE i.principal = driftq_resolve.principal AND i.operation = driftq_resolve.operation
        AND i.idempotency_key = driftq_resolve.idempotency_key
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'NOT_FOUND';
    ELSIF k.fence IS DISTINCT FROM driftq_resolve.fence THEN
        RETURN 'STALE';
    ELSIF k.status = 'UNKNOWN' OR k.status = 'IN_PROGRESS' AND k.lease_until <= clock_timestamp() THEN
        RETURN driftq_finish(principal, operation, idempotency_key, fence, status,
            response_code, response, error);
    END IF;
    RETURN 'NOT_IN_DOUBT';
END $$;

-- Deletes outcomes that have expired, at most `at_most` of them. Returns how many.
CREATE FUNCTION driftq_expire(at_most integer DEFAULT 1000) RETURNS bigint LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH expired AS (
        SELECT i.principal, i.operation, i.idempotency_key FROM idempotency_keys AS i
        WHERE i.status IN ('SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE')
            AND i.expires_at <= clock_timestamp()
        ORDER BY i.expires_at LIMIT at_most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM idempotency_keys AS i USING expired AS e
        WHERE i.principal = e.principal AND i.operation = e.operation
            AND i.idempotency_key = e.idempotency_key
            AND i.status IN ('SUCCEEDED', 'FAILED_FINAL', 'FAILED_RETRYABLE')
        RETURNING 1
    )
    SELECT count(*) FROM deleted
$$;

-- Messages that `driftq relay` moves to DriftQ.
CREATE TABLE driftq_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    message_key text NOT NULL DEFAULT '',
    value bytea NOT NULL,
    -- The fields of `envelope` in `POST /v1/produce`.
    envelope jsonb NOT NULL CHECK (
        jsonb_typeof(envelope) = 'object'
        AND coalesce(jsonb_typeof(envelope -> 'idempotency_key') = 'string'
            AND envelope ->> 'idempotency_key' <> '', false)
    ),
    enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set before the message is sent. The message may be stored since then.
    first_sent_at timestamptz,
    retry_at timestamptz,
    last_error text
);

-- Enqueues a message. Returns its idempotency key.
CREATE FUNCTION driftq_enqueue(
    topic text, value bytea, message_key text DEFAULT '', envelope jsonb DEFAULT '{}'
) RETURNS text LANGUAGE sql SET search_path FROM CURRENT AS $$
    INSERT INTO driftq_outbox (topic, message_key, value, envelope)
    VALUES (topic, message_key, value,
        jsonb_build_object('idempotency_key', 'outbox-' || gen_random_uuid())
            || jsonb_strip_nulls(envelope))
    RETURNING envelope ->> 'idempotency_key'
$$;
