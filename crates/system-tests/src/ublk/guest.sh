# A story of the guest's, after guest/begin.sh: loads ublk_drv, serves drives as /dev/ublkbN, uses them as
# people do. With `rates` on the kernel's command line: how fast the two doors are.
# shellcheck shell=sh

SMALL="--make --buffer 8MiB --drive /drive"

# Starts a server; DEVICE is its block device.
serve() {
    : > /tmp/out
    imbrex serve --ublk "$@" > /tmp/out 2> /tmp/err &
    SERVER=$!
    until grep -q ' at /dev/' /tmp/out; do
        kill -0 $SERVER
        sleep 0.1
    done
    DEVICE=$(sed -n 's/.* at //p' /tmp/out)
    QUEUE=/sys/block/${DEVICE#/dev/}/queue
}

# Ends it as a user does: the block device is gone, and nothing has failed.
stop() {
    kill -TERM $SERVER
    wait $SERVER
    test ! -e "$DEVICE"
    grep -Eq '^errors +0$' /tmp/out
}

told() { test "$(cat "$QUEUE/$1")" = "$2" || { echo "$1 is $(cat "$QUEUE/$1")"; false; }; }

zeros() {
    dd if="$DEVICE" of=/tmp/read bs=1M skip="$1" count="$2" iflag=direct 2> /tmp/said
    test "$(wc -c < /tmp/read)" = $(($2 * 1048576))
    test "$(tr -d '\0' < /tmp/read | wc -c)" = 0
}

# Random writes, several at a time, some longer than a request may be; then all is read and compared.
verify() {
    fio --name=v --ioengine=libaio --direct=1 --iodepth=16 --rw=randwrite --verify=crc32c --verify_fatal=1 \
        --numjobs=2 --group_reporting "$@" > /tmp/said 2>&1 || { cat /tmp/said; return 1; }
}

without_driver() {
    step "without the driver the error says what to do"
    refused imbrex serve --memory 1MiB --ublk
    grep 'modprobe ublk_drv' /tmp/said | grep -q 'NBD'
    insmod /lib/guest/ublk_drv.ko
    chmod 600 /dev/ublk-control
    refused /usr/bin/setpriv --reuid 65534 --clear-groups imbrex serve --memory 1MiB --ublk
    grep -q 'need root' /tmp/said
}

raw() {
    step "a zoned drive, sectors of 512: the kernel is told its limits"
    imbrex drive create --blank --rule zoned --no-timing --capacity 128MiB --zone-len 1MiB --seed 7 /drive > /tmp/said
    # shellcheck disable=SC2086
    serve $SMALL
    told logical_block_size 512
    told physical_block_size 4096
    told max_hw_sectors_kb 512
    told discard_granularity 4096
    told discard_max_bytes 1073741824
    told write_zeroes_max_bytes 33554432
    told write_cache 'write back'
    told fua 1
    told rotational 1
    step "fio on the raw device"
    verify --filename="$DEVICE" --bsrange=512-1m --blockalign=512 --size=12m --offset_increment=12m --fsync=16
    verify --filename="$DEVICE" --bs=4k --size=1m --offset_increment=1m --sync=dsync
    step "zeros and discards"
    /usr/sbin/blkdiscard -z -o 1M -l 3M "$DEVICE"
    zeros 1 3
    /usr/bin/fallocate -p -o 6M -l 2M "$DEVICE"
    zeros 6 2
    /usr/sbin/blkdiscard "$DEVICE"
    stop
    grep -Eq '^trims +[1-9]' /tmp/out
    grep -Eq '^zeroes +[1-9]' /tmp/out
}

file_system() {
    step "ext4: made, filled, fio, trimmed, checked"
    # shellcheck disable=SC2086
    serve $SMALL
    mkfs.ext4 -q -b 4096 "$DEVICE"
    mount -t ext4 "$DEVICE" /mnt
    for number in 1 2 3 4 5 6; do
        dd if=/dev/urandom of=/mnt/$number bs=256k count=$number 2> /tmp/said
    done
    (cd /mnt && sha256sum [1-6]) > /tmp/sums
    verify --directory=/mnt --bs=4k --size=2m --fsync=16
    rm /mnt/v.*
    /usr/sbin/fstrim /mnt
    (cd /mnt && sha256sum -c -s /tmp/sums)
    umount /mnt
    e2fsck -f -n "$DEVICE" > /tmp/said 2>&1
    stop
    step "opened again, sectors of 4096"
    # shellcheck disable=SC2086
    serve $SMALL --sector-size 4096
    told logical_block_size 4096
    verify_files
    stop
    step "read-only"
    # shellcheck disable=SC2086
    serve $SMALL --read-only
    test "$(cat "$QUEUE/../ro")" = 1
    told discard_max_bytes 0
    refused dd if=/dev/zero of="$DEVICE" bs=4k count=1 oflag=direct
    mount -t ext4 -o ro "$DEVICE" /mnt
    (cd /mnt && sha256sum -c -s /tmp/sums)
    umount /mnt
    stop
}

verify_files() {
    e2fsck -f -n "$DEVICE" > /tmp/said 2>&1
    mount -t ext4 "$DEVICE" /mnt
    (cd /mnt && sha256sum -c -s /tmp/sums)
    umount /mnt
}

# What lies on the drive after the server ended under a mounted file system.
recovered() {
    umount /mnt
    # shellcheck disable=SC2086
    serve $SMALL
    e2fsck -f -p "$DEVICE" > /tmp/said 2>&1 || test $? = 1
    verify_files
    mount -t ext4 "$DEVICE" /mnt
    test "$(cat "/mnt/$1")" = "$1"
    umount /mnt
    stop
}

ends() {
    step "stopped under a mounted file system: the kernel writes what it has"
    # shellcheck disable=SC2086
    serve $SMALL
    mount -t ext4 "$DEVICE" /mnt
    echo unsynced > /mnt/unsynced
    dd if=/dev/urandom of=/mnt/many bs=1M count=24 2> /tmp/said
    (cd /mnt && sha256sum [1-6] many) > /tmp/sums
    stop
    recovered unsynced
    step "killed under a mounted file system: what was synced is there"
    # shellcheck disable=SC2086
    serve $SMALL
    mount -t ext4 "$DEVICE" /mnt
    echo synced > /mnt/synced
    sync /mnt/synced /mnt
    kill -9 $SERVER
    wait $SERVER || test $? = 137
    recovered synced
    step "a drive that loses its power is an I/O error, and the server lives"
    # shellcheck disable=SC2086
    serve $SMALL --cut-after 40
    refused dd if=/dev/urandom of="$DEVICE" bs=64k seek=1000 count=400 oflag=direct conv=fsync
    grep -Eq 'I/O error|Input/output error' /tmp/said
    kill -TERM $SERVER
    refused wait $SERVER
    grep -q 'requests failed, the first: ' /tmp/err
    grep -q 'no power' /tmp/err
}

# Waits for the server's end, a minute at most: one that waits for itself would never end.
ended() {
    for _ in $(seq 600); do
        if ! grep -q '^State:.[^Z]' /proc/$SERVER/status 2> /tmp/said; then return; fi
        sleep 0.1
    done
    echo "the server hangs: $(cat /proc/$SERVER/task/*/wchan)"
    false
}

# The process by which a server stops its device.
stopper() { grep -ls "ublk-sto[p]" /proc/[0-9]*/cmdline | cut -d / -f 3 | grep .; }

# A server under a mounted file system with much unwritten, told to stop and writing it.
stopping() {
    step "while it stops: $*"
    serve --memory 512MiB
    mkfs.ext4 -q -b 4096 "$DEVICE"
    mount -t ext4 "$DEVICE" /mnt
    dd if=/dev/zero of=/mnt/much bs=1M count=120 2> /tmp/said
    kill -TERM $SERVER
    until cat "/proc/$(stopper)"/task/*/stack 2> /tmp/said | grep -q ublk_stop_dev || test ! -e "$DEVICE"; do
        sleep 0.01
    done
}

impatience() {
    echo 90 > /proc/sys/vm/dirty_ratio
    echo 90 > /proc/sys/vm/dirty_background_ratio
    echo 360000 > /proc/sys/vm/dirty_writeback_centisecs
    for signal in KILL TERM; do
        stopping $signal
        kill -$signal $SERVER || true
        ended
        wait $SERVER || true
        umount /mnt
    done
    for stopped in server stopper; do
        stopping "STOP and CONT of the $stopped"
        for _ in 1 2 3; do
            STOPPED=$SERVER
            test $stopped = server || STOPPED=$(stopper) || break
            kill -STOP "$STOPPED" && sleep 0.2 && kill -CONT "$STOPPED" || break
        done
        ended
        wait $SERVER
        grep -Eq '^errors +0$' /tmp/out
        umount /mnt
    done
    step "too few descriptors for a queue: an error, not a wait"
    for count in 10 11 12 13; do
        (ulimit -n $count && exec imbrex serve --ublk --memory 1MiB) > /tmp/out 2> /tmp/err &
        SERVER=$!
        ended
        refused wait $SERVER
    done
    step "stopped by somebody else: the server ends"
    serve --memory 1MiB
    imbrex ublk-stop "${DEVICE#/dev/ublkb}"
    ended
    wait $SERVER
}

# Four random loads on DEVICE, which is full.
rate() {
    for load in randread randwrite; do
        for depth in 1 16; do
            fio --name=r --filename="$DEVICE" --ioengine=libaio --direct=1 --bs=4k --iodepth=$depth --rw=$load \
                --runtime=3 --time_based --size=128m --minimal > /tmp/said
            # Of fio's terse format, version 3: operations a second of reads and of writes.
            echo "guest: rate $1 $load $depth $(cut -d ';' -f 8 /tmp/said) $(cut -d ';' -f 49 /tmp/said)"
        done
    done
}

# The same drive in memory by both doors in turn; NBD by the kernel's client, so that both are block devices.
rates() {
    insmod /lib/guest/ublk_drv.ko
    insmod /lib/guest/nbd.ko nbds_max=1
    for round in 1 2 3; do
        step "round $round"
        serve --memory 128MiB
        dd if=/dev/urandom of="$DEVICE" bs=1M count=128 oflag=direct 2> /tmp/said
        rate ublk
        stop
        : > /tmp/out
        imbrex serve --memory 128MiB --socket /tmp/socket > /tmp/out 2> /tmp/err &
        SERVER=$!
        until grep -q ' at nbd' /tmp/out; do sleep 0.1; done
        DEVICE=/dev/nbd0
        nbd-client -unix /tmp/socket $DEVICE > /tmp/said 2>&1
        dd if=/dev/urandom of=$DEVICE bs=1M count=128 oflag=direct 2> /tmp/said
        rate nbd
        nbd-client -d $DEVICE > /tmp/said 2>&1
        kill -TERM $SERVER
        wait $SERVER
    done
}

main() {
    without_driver
    raw
    file_system
    ends
    impatience
}

if asked rates; then tell rates; else tell main; fi
