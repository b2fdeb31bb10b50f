"""Records the settings of a FABRIC node on the node before a grid changes them, and restores them.

A killed process cannot restore settings, and a kept slice outlives it. Therefore, each node records the previous values
in a file per boot; the next start restores them first. The scripts run in the directory of the agent
(testbeds/fabric/agent.py), as root.
"""

from collections.abc import Sequence

# `set_value FILE VALUE` writes a value to a file below /proc/sys. The first value of a file in the record is the value
# before all changes. The record is on disk before the change.
DEFINE = """record=settings-$(sysctl -n kernel.random.boot_id)
set_value() {
    if ! grep -qsF "$1 " "$record"; then
        printf '%s %s\\n' "$1" "$(cat "$1")" >> "$record" && sync "$record" || return
    fi
    printf '%s\\n' "$2" > "$1"
}
"""
SET_VALUE = DEFINE + 'set_value "$1" "$2"\n'
# The arguments are interfaces. End the programs that still run (their working directory shows that their process id was
# not reused), remove our queueing disciplines, and write the recorded values. Commands (`run-*`) that set no value are
# not ended: they may be installing a package.
RESTORE = """record=settings-$(sysctl -n kernel.random.boot_id)
for job in jobs/*; do
    if [ ! -s "$job/pid" ] || [ -s "$job/status" ]; then continue; fi
    pid=$(cat "$job/pid")
    [ "$pid" != $$ ] || continue
    case $job in jobs/run-*) grep -qs "set_value()" "/proc/$pid/cmdline" || continue ;; esac
    if [ "$(readlink "/proc/$pid/cwd")" = "$(pwd -P)" ]; then
        echo "ended $(cat "/proc/$pid/comm")"
        kill -s KILL -- "-$pid"
    fi
done
for device; do
    case $(tc qdisc show dev "$device" root) in
        "qdisc tbf "* | "qdisc htb "* | "qdisc netem "*) tc qdisc del dev "$device" root && echo "removed a queue" ;;
    esac
done
failed=0
if [ -e "$record" ]; then
    while read -r file value; do
        if [ -w "$file" ] && [ "$(cat "$file")" != "$value" ]; then
            printf '%s\\n' "$value" > "$file" || failed=1
            echo "restored $file"
        fi
    done < "$record"
fi
[ "$failed" = 0 ] && rm -f settings-*
"""


def set_value_argv(path: str, value: str) -> list[str]:
    """Return the command that writes a value to a file below /proc/sys after its previous value was recorded."""
    return ["sh", "-c", SET_VALUE, "sh", path, value]


def restore_argv(devices: Sequence[str]) -> list[str]:
    """Return the command that ends our programs and restores queues and settings; it prints a line per change."""
    return ["sh", "-c", RESTORE, "sh", *devices]
