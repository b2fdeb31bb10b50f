"""The configuration of `acapella transfer`."""

import json

ANALYSIS = ("data", "sheet", "name_pattern")  # keys that do not affect the runs


def transfer_config(config: dict) -> str:
    """Return the configuration of `acapella transfer` as JSON."""
    selected = {"transfer": {key: value for key, value in config["transfer"].items() if key not in ANALYSIS}}
    if config["transfer"]["testbed"] == "fabric":
        selected["fabric"] = config["fabric"]
    return json.dumps(selected, sort_keys=True)
