"""Writes src/driftq/_wire.py: the types of the requests and responses that the SDK uses.

python generate_wire.py          # writes the file
python generate_wire.py --check  # fails if the file is not up to date
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OPENAPI = HERE / "../../docs/reference/openapi.json"
TARGET = HERE / "src/driftq/_wire.py"
#: What the SDK sends and reads. Types that they use are added.
ROOTS = ["Begin", "Began", "Commit", "Delivery", "Finish", "Produce", "Receipt", "Receive", "SettleItem"]


def main() -> int:
    schemas = json.loads(OPENAPI.read_text())["components"]["schemas"]
    text = generate(schemas)
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text() == text:
            return 0
        print(f"{TARGET.name} is not that of openapi.json; run: python generate_wire.py", file=sys.stderr)
        return 1
    TARGET.write_text(text)
    return 0


def generate(schemas: dict[str, Any]) -> str:
    done: dict[str, str] = {}
    for name in ROOTS:
        add(name, schemas, done)
    lines = [
        '"""Generated from docs/reference/openapi.json by generate_wire.py. Do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Literal, NotRequired, TypedDict",
        "",
        "",
    ]
    return "\n".join(lines) + "\n\n".join(done[name] for name in sorted(done))


def add(name: str, schemas: dict[str, Any], done: dict[str, str]) -> None:
    if name in done:
        return
    done[name] = ""
    schema = schemas[name]
    required = set(schema.get("required", []))
    lines = [f"class {name}(TypedDict):"]
    for field, of in sorted(schema["properties"].items()):
        text = type_of(of, schemas, done)
        # In a request, null means the same as an absent field.
        optional = f"NotRequired[{text.removesuffix(' | None')}]"
        lines.append(f"    {field}: {text if field in required else optional}")
    done[name] = "\n".join(lines) + "\n"


def type_of(schema: Any, schemas: dict[str, Any], done: dict[str, str]) -> str:
    if not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        if "properties" not in schemas[name]:
            return type_of(schemas[name], schemas, done)
        add(name, schemas, done)
        return name
    for alternatives in ("oneOf", "anyOf"):
        if alternatives in schema:
            return union([type_of(of, schemas, done) for of in schema[alternatives]])
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return type_of(schema["allOf"][0], schemas, done)
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    kind = schema.get("type")
    if isinstance(kind, list):
        return union([type_of({**schema, "type": of}, schemas, done) for of in kind])
    if kind == "array":
        return f"list[{type_of(schema.get('items'), schemas, done)}]"
    if kind == "object":
        return f"dict[str, {type_of(schema.get('additionalProperties'), schemas, done)}]"
    simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    return simple.get(str(kind), "Any")


def union(types: list[str]) -> str:
    parts = list(dict.fromkeys(types))
    return "Any" if "Any" in parts else " | ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
