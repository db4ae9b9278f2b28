#!/bin/busybox sh
# The first process of a guest: what comes before the script that says what this one does. File systems, words
# that every script uses, and `tell`, which runs a story and says in its last line whether all was right.

# Where busybox has a program of the same name it takes its own: others are called by their paths.
export PATH=/usr/sbin:/usr/bin:/bin
/bin/busybox mkdir -p /proc /sys /dev /tmp /mnt
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev

step() { echo "guest: $(cut -d ' ' -f 1 /proc/uptime) $*"; }

refused() { if "$@" > /tmp/said 2>&1; then return 1; fi; }

# Whether the kernel was given that word.
asked() { case " $(cat /proc/cmdline) " in *" $1 "*) ;; *) false ;; esac; }

# Runs a story to its end; where the guest was only asked whether it starts, none.
tell() {
    if asked probe; then story=true; else story=$1; fi
    (set -eu; $story)
    if test $? = 0; then
        echo "guest: all right on Linux $(uname -r) after $(cut -d ' ' -f 1 /proc/uptime) s"
    else
        echo "guest: FAILED; what was said last, by the server, by the kernel:"
        tail -n 20 /tmp/said /tmp/out /tmp/err
        dmesg | tail -n 40
    fi
    poweroff -f
}
