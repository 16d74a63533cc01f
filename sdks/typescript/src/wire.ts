// Generated from docs/reference/openapi.json by scripts/wire-types.js. Do not edit.
export interface components {
    schemas: {
        AnyJson: unknown;
        BackoffMs: number;
        /** Format: byte */
        Base64: string;
        /** @description The decision about an effect, and what is recorded about it. */
        Began: {
            action?: components["schemas"]["DoubtAction"];
            code?: number;
            decision: components["schemas"]["BeginDecision"];
            doubt?: components["schemas"]["Doubt"];
            downstream_key?: components["schemas"]["DownstreamKey"];
            downstream_until?: components["schemas"]["Time"];
            error?: string;
            expires_at?: components["schemas"]["Time"];
            fence: number;
            finished_at?: components["schemas"]["Time"];
            key: components["schemas"]["EffectKey"];
            replay_until?: components["schemas"]["Time"];
            result?: components["schemas"]["AnyJson"];
            result_base64?: string;
            scope: components["schemas"]["ScopeName"];
            state?: components["schemas"]["EffectState"];
            status?: components["schemas"]["EffectStatus"];
            tenant_id: components["schemas"]["Tenant"];
            token?: components["schemas"]["EffectToken"];
        };
        /** @description `POST /v1/effects/begin`. */
        Begin: {
            key?: components["schemas"]["EffectKey"] | null;
            lease_ms?: components["schemas"]["LeaseMs"] | null;
            lease_token?: components["schemas"]["LeaseToken"] | null;
            nonce?: components["schemas"]["Nonce"] | null;
            on_doubt?: components["schemas"]["OnDoubt"] | null;
            owner?: components["schemas"]["Owner"] | null;
            provider_window_ms?: components["schemas"]["ProviderWindowMs"] | null;
            request?: string | null;
            request_hash?: components["schemas"]["RequestHash"] | null;
            scope?: components["schemas"]["ScopeName"] | null;
            tenant_id?: components["schemas"]["Tenant"] | null;
            ttl_ms?: components["schemas"]["EffectTtlMs"] | null;
        };
        /**
         * @description What a worker should do with an effect.
         * @enum {string}
         */
        BeginDecision: "EXECUTE" | "REPLAY" | "RETRYABLE" | "IN_DOUBT" | "IN_PROGRESS";
        /** @description `POST /v1/commit`. */
        Commit: {
            dead_letter?: boolean | null;
            delay_ms?: components["schemas"]["DelayMs"] | null;
            effects?: components["schemas"]["Finish"][];
            pointers?: components["schemas"]["SetPointer"][];
            produce?: components["schemas"]["Produce"][];
            reason?: string | null;
            result?: components["schemas"]["AnyJson"] | null;
            /** @default ack */
            settle?: components["schemas"]["CommitSettle"] | null;
            token: components["schemas"]["LeaseToken"];
        };
        /**
         * @description How a commit settles its delivery.
         * @enum {string}
         */
        CommitSettle: "ack" | "nack";
        /** @description How and where a message was dead-lettered. */
        Death: {
            attempts: number;
            dead_at: components["schemas"]["Time"];
            first_delivered_at?: components["schemas"]["Time"];
            group: components["schemas"]["GroupName"];
            idempotency_key?: string;
            last_error: string;
            last_owner: string;
            origin: components["schemas"]["Origin"];
            produced_at: components["schemas"]["Time"];
            reason: components["schemas"]["DeathReason"];
            tenant_id: string;
        };
        /**
         * @description Why a message was dead-lettered.
         * @enum {string}
         */
        DeathReason: "exhausted" | "rejected" | "deadline" | "undeliverable";
        DelayMs: number;
        /** @description One delivery of a message to a consumer. */
        Delivery: {
            attempts: number;
            dlq?: components["schemas"]["Death"];
            envelope?: components["schemas"]["Envelope"];
            group: components["schemas"]["GroupName"];
            id: components["schemas"]["MessageId"];
            key: string;
            last_error: string;
            lease: components["schemas"]["Lease"];
            offset: number;
            /**
             * @description The id under which the message was first stored. It stays the same when the message is
             *     redriven.
             */
            origin_id: components["schemas"]["MessageId"];
            partition: number;
            produced_at: components["schemas"]["Time"];
            redriven?: components["schemas"]["Redriven"];
            routing?: components["schemas"]["Routing"];
            tenant_id: string;
            topic: components["schemas"]["TopicName"];
            trace?: components["schemas"]["Trace"];
            value?: string;
            value_base64?: components["schemas"]["Base64"];
        };
        /** @description An execution whose outcome is unknown. */
        Doubt: {
            began_at: components["schemas"]["Time"];
            cause: components["schemas"]["DoubtCause"];
            fence: number;
            owner?: string;
            since: components["schemas"]["Time"];
        };
        /**
         * @description What happens next to an effect in doubt.
         * @enum {string}
         */
        DoubtAction: "probe" | "park";
        /**
         * @description Why the outcome of an effect is unknown.
         * @enum {string}
         */
        DoubtCause: "lease_expired" | "reported" | "abandoned";
        DownstreamKey: string;
        /** @description At most 255 bytes of UTF-8, without control characters. */
        EffectKey: string;
        /**
         * @description The state of an effect.
         * @enum {string}
         */
        EffectState: "IN_PROGRESS" | "IN_DOUBT" | "PARKED" | "SUCCEEDED" | "FAILED_FINAL" | "FAILED_RETRYABLE";
        /**
         * @description The state of an effect in the words of v1.
         * @enum {string}
         */
        EffectStatus: "PENDING" | "COMMITTED" | "FAILED";
        EffectToken: string;
        EffectTtlMs: number;
        /** @description Metadata that a producer sets in addition to key and value. */
        Envelope: {
            deadline?: components["schemas"]["Time"] | null;
            headers?: components["schemas"]["Headers"] | null;
            idempotency_key?: components["schemas"]["IdempotencyKey"] | null;
            labels?: components["schemas"]["Labels"] | null;
            parent_step_id?: components["schemas"]["EnvelopeText"] | null;
            partition_override?: components["schemas"]["PartitionNumber"] | null;
            retry_policy?: components["schemas"]["RetryPolicy"] | null;
            run_id?: components["schemas"]["EnvelopeText"] | null;
            step_id?: components["schemas"]["EnvelopeText"] | null;
            target_topic?: components["schemas"]["EnvelopeText"] | null;
            tenant_id?: components["schemas"]["Tenant"] | null;
        };
        /** @description At most 1 KiB of UTF-8. */
        EnvelopeText: string;
        /** @description `POST /v1/effects/finish`. */
        Finish: {
            /** @default 0 */
            code?: number | null;
            /** @default keep */
            downstream_key?: components["schemas"]["Keep"] | null;
            error?: string | null;
            result?: components["schemas"]["AnyJson"] | null;
            result_base64?: string | null;
            status: components["schemas"]["FinishStatus"];
            token: components["schemas"]["EffectToken"];
        };
        /**
         * @description How an execution of an effect ended.
         * @enum {string}
         */
        FinishStatus: "SUCCEEDED" | "FAILED_FINAL" | "FAILED_RETRYABLE" | "UNKNOWN";
        GroupName: string;
        /** @description At most 16 KiB of UTF-8, all names and values together. */
        Headers: {
            [key: string]: string;
        };
        /** @description At most 255 bytes of UTF-8, without control characters. An empty key counts as absent. */
        IdempotencyKey: string;
        Integer: number;
        /**
         * @description Whether the next execution gets another downstream key.
         * @enum {string}
         */
        Keep: "keep" | "renew";
        /** @description Each at most 1 KiB of UTF-8, name and value together. */
        Labels: {
            [key: string]: string;
        };
        /** @description The lease of a delivery. */
        Lease: {
            attempt: number;
            expires_at: components["schemas"]["Time"];
            token: components["schemas"]["LeaseToken"];
        };
        LeaseMs: number;
        LeaseToken: string;
        Limit: number;
        MaxAttempts: number;
        MessageId: string;
        /** @description At most 1 KiB of UTF-8. */
        MessageKey: string;
        Nonce: string;
        /**
         * @description What happens to an effect whose outcome is unknown.
         * @enum {string}
         */
        OnDoubt: "retry" | "probe" | "park";
        /**
         * @description The operation of an item of `POST /v1/settle`.
         * @enum {string}
         */
        Op: "ack" | "nack" | "extend";
        /** @description The position of the message before it was dead-lettered. */
        Origin: {
            id: components["schemas"]["MessageId"];
            offset: number;
            partition: number;
            topic: components["schemas"]["TopicName"];
        };
        /** @description At most 255 bytes of UTF-8, without control characters. */
        Owner: string;
        PartitionNumber: number;
        /** @description At most 255 bytes of UTF-8, without control characters. */
        PointerText: string;
        /** @description `POST /v1/produce`, and an item of `POST /v1/produce/batch`. */
        Produce: {
            envelope?: components["schemas"]["Envelope"] | null;
            key?: components["schemas"]["MessageKey"] | null;
            nonce?: components["schemas"]["Nonce"] | null;
            topic: components["schemas"]["TopicName"];
            value?: string | null;
            value_base64?: components["schemas"]["Base64"] | null;
        };
        /**
         * @description A message was stored.
         * @enum {string}
         */
        ProducedStatus: "produced";
        ProviderWindowMs: number;
        /** @description Where a message was stored. */
        Receipt: {
            deduplicated: boolean;
            final_topic?: components["schemas"]["TopicName"];
            id: components["schemas"]["MessageId"];
            offset: number;
            partition: number;
            status: components["schemas"]["ProducedStatus"];
            topic: components["schemas"]["TopicName"];
        };
        /** @description `POST /v1/receive`. */
        Receive: {
            group: components["schemas"]["GroupName"];
            lease_ms?: components["schemas"]["LeaseMs"] | null;
            /** @default 1 */
            max?: components["schemas"]["Limit"] | null;
            owner: components["schemas"]["Owner"];
            start?: components["schemas"]["SeekEnd"] | null;
            topic: components["schemas"]["TopicName"];
            /** @default 20000 */
            wait_ms?: components["schemas"]["WaitMs"] | null;
            worker?: components["schemas"]["Worker"] | null;
        };
        /** @description Set on a message that was redriven from the dead letters. */
        Redriven: {
            /** @description The id it had when it was first stored. */
            origin_id: components["schemas"]["MessageId"];
            /** @description How often it was redriven. */
            times: number;
        };
        RequestHash: string;
        /** @description How often, and after which waits, a message is retried. */
        RetryPolicy: {
            backoff_ms?: components["schemas"]["BackoffMs"] | null;
            max_attempts?: components["schemas"]["MaxAttempts"] | null;
            max_backoff_ms?: components["schemas"]["BackoffMs"] | null;
        };
        /** @description The router's decision. */
        Routing: {
            label: string;
            meta?: {
                [key: string]: string;
            };
            partition_override?: number;
            target_topic?: string;
        };
        /** @description `op/<name>`, `effect/<topic>/<group>` or `produce/<topic>`. */
        ScopeName: string;
        /**
         * @description An end of a topic.
         * @enum {string}
         */
        SeekEnd: "earliest" | "latest";
        /** @description A pointer that a commit sets. */
        SetPointer: {
            checksum?: string | null;
            dataset: components["schemas"]["PointerText"];
            location: string;
            partition_key: components["schemas"]["PointerText"];
            replace?: boolean | null;
            version: components["schemas"]["PointerText"];
        };
        /** @description Identifies a delivery, by its token, or by position and owner as in v1. */
        SettleItem: {
            dead_letter?: boolean | null;
            delay_ms?: components["schemas"]["DelayMs"] | null;
            group?: components["schemas"]["GroupName"] | null;
            lease_ms?: components["schemas"]["LeaseMs"] | null;
            offset?: components["schemas"]["Integer"] | null;
            op: components["schemas"]["Op"];
            owner?: components["schemas"]["Owner"] | null;
            partition?: components["schemas"]["PartitionNumber"] | null;
            reason?: string | null;
            release?: boolean | null;
            token?: components["schemas"]["LeaseToken"] | null;
            topic?: components["schemas"]["TopicName"] | null;
        };
        /** @description At most 255 bytes of UTF-8. */
        Tenant: string;
        /**
         * Format: date-time
         * @description RFC 3339, from 1970 to 9999. Responses are in UTC, with milliseconds.
         */
        Time: string;
        TopicName: string;
        /** @description W3C trace context of the produce. */
        Trace: {
            traceparent: string;
            tracestate?: string;
        };
        WaitMs: number;
        /** @description A worker process, as it describes itself. */
        Worker: {
            concurrency?: components["schemas"]["WorkerNumber"] | null;
            host?: components["schemas"]["Owner"] | null;
            id: components["schemas"]["Owner"];
            pid?: components["schemas"]["WorkerNumber"] | null;
            sdk?: components["schemas"]["Owner"] | null;
            version?: components["schemas"]["Owner"] | null;
        };
        WorkerNumber: number;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
