"""Shell functions that install packages; scripts for nodes begin with them."""

WAIT_S = 120  # time to wait for other apt-get or dpkg processes, such as unattended-upgrades after the first boot

# `wait_for_boot` waits for cloud-init, with which FABRIC configures new nodes (AMHandlers 18c9f98, VMHandler).
# `add_package APT DNF` installs a package by its name for apt-get or dnf. DPkg::Lock::Timeout only applies to the lock
# of dpkg: `apt-get update` of apt 2.6 fails immediately if another process has the lock of the package lists.
DEFINE = f"""export DEBIAN_FRONTEND=noninteractive
wait_for_boot() {{
    command -v cloud-init > /dev/null || return 0
    timeout {WAIT_S} cloud-init status --wait > /dev/null 2>&1 || echo "cloud-init has not ended without errors"
}}
update_lists() {{
    [ -z "$updated" ] || return 0
    end=$(($(date +%s) + {WAIT_S}))
    until message=$(apt-get -qq update 2>&1); do
        case $message in
            *"get lock"*) [ "$(date +%s)" -lt "$end" ] && sleep 3 && continue ;;
        esac
        echo "$message" >&2
        return 1
    done
    updated=yes
}}
add_package() {{
    if command -v apt-get > /dev/null; then
        update_lists && apt-get -qq -y -o DPkg::Lock::Timeout={WAIT_S} install "$1"
    else
        dnf -q -y install "$2"
    fi
}}
updated=
"""
