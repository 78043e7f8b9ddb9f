#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Read a pprof file without any library and without the code that wrote it.

    pprof_read.py FILE            the profile as JSON
    pprof_read.py --folded FILE   as folded stacks, as pyperf-bpf writes them

Also for import:

    p = pprof_read.read(path)     # a dict, see parse()
    p["totals"]["samples"], p["samples"][0]["stack"][0]["func"]

It is strict: an unknown field, a bad wire type, an id that leads nowhere or a string that is not
UTF-8 raises ValueError.
"""
import gzip
import json
import sys

VARINT, FIXED64, LEN = 0, 1, 2

# number: (name, kind); kind: "i" int64, "u" uint64, "s" string, "b" bytes, "f" fixed64, or the fields of a message.
# A name that ends in "*" is repeated.
VALUE_TYPE = {1: ("type", "i"), 2: ("unit", "i")}
LABEL = {1: ("key", "i"), 2: ("str", "i"), 3: ("num", "i"), 4: ("num_unit", "i")}
SAMPLE = {1: ("location_id*", "u"), 2: ("value*", "i"), 3: ("label*", LABEL)}
MAPPING = {
    1: ("id", "u"), 2: ("memory_start", "u"), 3: ("memory_limit", "u"), 4: ("file_offset", "u"),
    5: ("filename", "i"), 6: ("build_id", "i"), 7: ("has_functions", "u"),
    8: ("has_filenames", "u"), 9: ("has_line_numbers", "u"), 10: ("has_inline_frames", "u"),
}
LINE = {1: ("function_id", "u"), 2: ("line", "i"), 3: ("column", "i")}
LOCATION = {
    1: ("id", "u"), 2: ("mapping_id", "u"), 3: ("address", "u"), 4: ("line*", LINE),
    5: ("is_folded", "u"),
}
FUNCTION = {
    1: ("id", "u"), 2: ("name", "i"), 3: ("system_name", "i"), 4: ("filename", "i"),
    5: ("start_line", "i"),
}
PROFILE = {
    1: ("sample_type*", VALUE_TYPE), 2: ("sample*", SAMPLE), 3: ("mapping*", MAPPING),
    4: ("location*", LOCATION), 5: ("function*", FUNCTION), 6: ("string_table*", "s"),
    7: ("drop_frames", "i"), 8: ("keep_frames", "i"), 9: ("time_nanos", "i"),
    10: ("duration_nanos", "i"), 11: ("period_type", VALUE_TYPE), 12: ("period", "i"),
    13: ("comment*", "i"), 14: ("default_sample_type", "i"),
}


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("bad varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at


def number(value, kind):
    return value - (1 << 64) if kind == "i" and value >> 63 else value


def message(data, fields):
    out = {}
    for name, kind in fields.values():
        if name.endswith("*"):
            out[name[:-1]] = []
        else:
            out[name] = {} if isinstance(kind, dict) else b"" if kind == "b" else 0
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        field, wire = key >> 3, key & 7
        if field not in fields:
            raise ValueError(f"unknown field {field}")
        name, kind = fields[field]
        if wire == VARINT and kind in ("i", "u"):
            value, at = varint(data, at)
            values = [number(value, kind)]
        elif wire == FIXED64 and kind == "f":
            values = [int.from_bytes(data[at:at + 8], "little")]
            at += 8
        elif wire == LEN:
            size, at = varint(data, at)
            chunk = data[at:at + size]
            if len(chunk) != size:
                raise ValueError("truncated")
            at += size
            if isinstance(kind, dict):
                values = [message(chunk, kind)]
            elif kind == "s":
                values = [chunk.decode("utf-8")]
            elif kind == "b":
                values = [chunk]
            else:
                values, i = [], 0
                while i < len(chunk):
                    value, i = varint(chunk, i)
                    values.append(number(value, kind))
        else:
            raise ValueError(f"field {name} has wire type {wire}")
        if name.endswith("*"):
            out[name[:-1]] += values
        else:
            out[name] = values[-1]
    return out


def by_id(items):
    out = {item["id"]: item for item in items}
    if len(out) != len(items) or 0 in out:
        raise ValueError("ids are not unique")
    return out


def parse(data):
    """Gives types, totals (by type), samples (stack leaf first, values by type, labels), mappings
    and the other members of a profile, with all references resolved."""
    raw = message(data, PROFILE)
    strings = raw["string_table"]
    if not strings or strings[0] != "":
        raise ValueError("the first string is not empty")
    mappings, functions = by_id(raw["mapping"]), by_id(raw["function"])

    def value_type(t):
        return f"{strings[t['type']]}/{strings[t['unit']]}" if t else ""

    types = [strings[t["type"]] for t in raw["sample_type"]]

    def frames(location):
        mapping = mappings[location["mapping_id"]] if location["mapping_id"] else None
        common = {
            "address": location["address"],
            "mapping": strings[mapping["filename"]] if mapping else "",
        }
        lines = location["line"] or [None]
        for i, line in enumerate(lines):
            f = functions[line["function_id"]] if line else None
            yield {
                "func": strings[f["name"]] if f else "",
                "file": strings[f["filename"]] if f else "",
                "line": line["line"] if line else 0,
                "start_line": f["start_line"] if f else 0,
                "inlined": i < len(lines) - 1,
                **common,
            }

    locations = {i: list(frames(loc)) for i, loc in by_id(raw["location"]).items()}
    samples = []
    for s in raw["sample"]:
        if len(s["value"]) != len(types):
            raise ValueError("values and types differ in number")
        samples.append({
            "values": dict(zip(types, s["value"])),
            "labels": {strings[la["key"]]: strings[la["str"]] if la["str"] else la["num"]
                       for la in s["label"]},
            "stack": [frame for i in s["location_id"] for frame in locations[i]],
        })
    flags = ("has_functions", "has_filenames", "has_line_numbers", "has_inline_frames")
    return {
        "types": [value_type(t) for t in raw["sample_type"]],
        "default_type": strings[raw["default_sample_type"]],
        "period": raw["period"],
        "period_type": value_type(raw["period_type"]),
        "time_nanos": raw["time_nanos"],
        "duration_nanos": raw["duration_nanos"],
        "comments": [strings[c] for c in raw["comment"]],
        "totals": {t: sum(s["values"][t] for s in samples) for t in types},
        "mappings": [{
            "filename": strings[m["filename"]],
            "build_id": strings[m["build_id"]],
            "start": m["memory_start"],
            "limit": m["memory_limit"],
            "offset": m["file_offset"],
            "flags": [f for f in flags if m[f]],
        } for m in raw["mapping"]],
        "samples": samples,
    }


def read(path):
    with gzip.open(path) as f:
        return parse(f.read())


def element(frame):
    """The text of a frame in folded stacks."""
    func, mapping = frame["func"], frame["mapping"]
    if func in ("", "[anon]", "[kernel]"):
        func = hex(frame["address"])
    if mapping == "[python]":
        place = frame["file"] + (f":{frame['line']}" if frame["line"] else "")
        text = f"{func} ({place})" if frame["file"] else func
    elif frame["address"] >> 63:  # the kernel, or one of its modules
        text = func + "_[k]"
    elif mapping:
        place = frame["file"] + (f":{frame['line']}" if frame["line"] else "")
        func += f" ({place})" if frame["file"] else ""
        mapping = "inlined" if frame["inlined"] else mapping
        text = f"{func} [{mapping.rsplit('/', 1)[-1]}]"
    elif func.startswith("["):
        text = func
    else:
        text = func + " [anon]"
    return text.replace(";", ":")


def folded(profile):
    lines = {}
    for s in profile["samples"]:
        labels = s["labels"]
        line = [labels["comm"].replace(";", ":")]
        if "tid" in labels:
            name = labels.get("thread", "<unknown>").replace(";", ":")
            line.append(f"thread {name} ({labels['tid']})")
        line = tuple(line + [element(f) for f in reversed(s["stack"])])
        lines[line] = lines.get(line, 0) + s["values"]["samples"]
    key = lambda item: [e.encode() for e in item[0]]
    return "".join(f"{';'.join(k)} {n}\n" for k, n in sorted(lines.items(), key=key))


def dump(profile):
    """JSON with one frame and one sample value per line, so that differences can be read."""
    head = {k: v for k, v in profile.items() if k not in ("mappings", "samples")}
    text = json.dumps(head, indent=1)[:-2]
    for part in ("mappings", "samples"):
        rows = []
        for row in profile[part]:
            stack = row.get("stack")
            line = json.dumps({k: v for k, v in row.items() if k != "stack"})
            if stack is not None:
                body = ",\n   ".join(json.dumps(f) for f in stack)
                line = line[:-1] + ', "stack": [\n   ' + body + "]}"
            rows.append(line)
        text += f',\n "{part}": [\n  ' + ",\n  ".join(rows) + "]"
    return text + "\n}\n"


def main(argv):
    as_folded = "--folded" in argv
    paths = [a for a in argv if not a.startswith("-")]
    if len(paths) != 1 or set(argv) - {"--folded", *paths}:
        print(__doc__.strip(), file=sys.stderr)
        return 0 if set(argv) & {"-h", "--help"} else 2
    profile = read(paths[0])
    sys.stdout.write(folded(profile) if as_folded else dump(profile))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
