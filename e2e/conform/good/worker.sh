#!/usr/bin/env bash
# A worker that `driftq conform` passes. Needs curl and jq.
set -uo pipefail
owner=sh-$$
stopping=
trap 'stopping=1' TERM

# Repeats a request until it has a response, and prints it. Fails if the server rejects it.
post() {
    local answer status
    while true; do
        if answer=$(curl -s -w '\n%{http_code}' "$DRIFTQ_URL/v1/$1" -d "$2"); then
            status=${answer##*$'\n'}
            case $status in
            2*) printf '%s' "${answer%$'\n'*}"; return 0 ;;
            429 | 503) ;;
            *) return 1 ;;
            esac
        fi
        sleep 0.1
    done
}

# Charges, and records the outcome. Without a response the outcome is unknown.
execute() {
    local token key result
    token=$(jq -r .token <<<"$2") key=$(jq -r .downstream_key <<<"$2")
    if result=$(curl -sf "$PROVIDER_URL/charges" -H "Idempotency-Key: $key" -d "$1"); then
        post effects/finish "{\"token\":\"$token\",\"status\":\"SUCCEEDED\",\"result\":$result}" >/dev/null
    else
        post effects/finish "{\"token\":\"$token\",\"status\":\"UNKNOWN\"}" >/dev/null
        return 1
    fi
}

handle() {
    local begun
    begun=$(post effects/begin "{\"lease_token\":\"$2\",\"owner\":\"$owner\",\"on_doubt\":\"retry\",\"nonce\":\"$RANDOM$RANDOM$RANDOM\"}") || return 1
    if [ "$(jq -r .decision <<<"$begun")" != REPLAY ]; then
        execute "$1" "$begun" || return 1
    fi
    post ack "{\"token\":\"$2\"}" >/dev/null
}

# If the lease is lost, the ledger rejects what this attempt still sends.
renew() {
    while sleep 1; do
        post extend "{\"token\":\"$1\"}" >/dev/null || return
    done
}

while [ -z "$stopping" ]; do
    received=$(post receive "{\"topic\":\"$DRIFTQ_TOPIC\",\"group\":\"$DRIFTQ_GROUP\",\"owner\":\"$owner\",\"wait_ms\":2000}") || exit 1
    token=$(jq -r '.messages[0].lease.token // empty' <<<"$received")
    [ -n "$token" ] || continue
    renew "$token" &
    renewal=$!
    if ! handle "$(jq -r '.messages[0].value' <<<"$received")" "$token"; then
        # Rejected if the lease is lost.
        post nack "{\"token\":\"$token\",\"reason\":\"failed\"}" >/dev/null || true
    fi
    kill "$renewal" 2>/dev/null
    wait "$renewal" 2>/dev/null
done
