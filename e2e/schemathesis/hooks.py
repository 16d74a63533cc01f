"""Rules that the OpenAPI document cannot express.

A request has a body or a query, never both, and the document cannot express "either". So there are
two runs, one for each form. Responses may gain fields later, but undocumented fields are errors now, so
response schemas are closed here.
"""

import os

import schemathesis

FORM = os.environ["DRIFTQ_FORM"]
# Longest wait for a message that may never arrive.
WAIT_MS = 5
WAITS = {str(wait_ms) for wait_ms in range(60_001)}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    # Any text is a valid request id. Varying it on every route would only double the requests.
    request_id = raw_schema["components"]["parameters"].pop("RequestId")
    assert request_id["schema"] == {"type": "string"}
    for path in raw_schema["paths"].values():
        for method, operation in list(path.items()):
            if not one_form(operation, schemas):
                del path[method]
    for name in answered(raw_schema):
        if "properties" in schemas[name]:
            schemas[name]["additionalProperties"] = False


def one_form(operation, schemas):
    """Keeps one form of a request that has two. Returns False if the other run covers the operation."""
    operation["parameters"] = parameters = [of for of in operation["parameters"] if "in" in of]
    in_query = [parameter for parameter in parameters if parameter.get("in") == "query"]
    if "requestBody" not in operation or not in_query:
        return FORM == "body"
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    sent = schemas[reference.rsplit("/", 1)[1]]
    if FORM == "body":
        operation["parameters"] = [of for of in parameters if of not in in_query]
        operation["requestBody"]["required"] = any(of in sent for of in ("required", "oneOf", "anyOf"))
    else:
        del operation["requestBody"]
        for parameter in in_query:
            parameter["required"] = parameter["name"] in sent.get("required", [])
    return True


def answered(raw_schema):
    """Returns the names of the response schemas and of the schemas they refer to."""
    found = set()
    rest = [of["responses"] for path in raw_schema["paths"].values() for of in path.values()]
    rest.append(raw_schema["components"]["responses"])
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(value)
        if isinstance(value, dict):
            rest.extend(value.values())
            prefix, _, name = str(value.get("$ref", "")).rpartition("/")
            if prefix.endswith("/schemas") and name not in found:
                found.add(name)
                rest.append(raw_schema["components"]["schemas"][name])
    return found


@schemathesis.hook
def before_call(context, case, **kwargs):
    if case.operation.path != "/v1/receive":
        return
    said = case.body if FORM == "body" else case.query
    # Invalid or too large values are rejected at once and stay as they are.
    if isinstance(said, dict) and str(said.get("wait_ms") or 0) in WAITS:
        said["wait_ms"] = WAIT_MS
