"""What the document cannot say to Schemathesis.

A request is a body or a query, never both, and a document has no way to say "either". So there are two
runs, one for each form. And answers may grow, which is no licence for fields that nobody wrote down: here
they are closed.
"""

import os

import schemathesis

FORM = os.environ["DRIFTQ_FORM"]
# Longer than this nobody waits for a message that may never come.
WAIT_MS = 5
WAITS = {str(wait_ms) for wait_ms in range(60_001)}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    # Any text is a good request id: to vary it on every route only doubles the requests.
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
    """Leaves one form of a request that has two. False: the run of the other form has it all."""
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
    """Names of the schemas of answers, and of what they are made of."""
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
    # What is no number, or too large, is refused at once and stays as it is.
    if isinstance(said, dict) and str(said.get("wait_ms") or 0) in WAITS:
        said["wait_ms"] = WAIT_MS
