# A story of the guest's, after guest/begin.sh: the same writes to two equal zoned drives, one below our block device
# and one below the kernel's dm-zoned. Lines `guest: length ...` and `guest: load ...` are figures; see figures.rs.
# shellcheck shell=sh

NULLB=/sys/kernel/config/nullb
# A drive in MiB. The conventional zones hold dm-zoned's metadata and its buffer; our block device has no use for them.
DRIVE=128
ZONE=1
CONVENTIONAL=6
# Our write buffer: as long as the random zones that dm-zoned has beside its metadata.
BUFFER=4MiB
# Seconds without a request to the drive, after which it is at rest: dm-zoned calls itself idle after ten. Then the
# most that it may take.
STILL_S=15
REST_MAX_S=300

# Runs what must succeed and hardly matters to a reader.
quiet() { "$@" > /tmp/said 2>&1 || { echo "failed: $*"; return 1; }; }

modules() {
    while read -r module; do
        case $module in
            null_blk) set -- nr_devices=0 ;;
            nbd) set -- nbds_max=1 ;;
            *) set -- ;;
        esac
        insmod "/lib/guest/$module.ko" "$@"
    done < /lib/guest/order
}

# An empty drive in memory, without limits of open zones.
drive() {
    mkdir "$NULLB/$1"
    for attribute in size=$DRIVE blocksize=4096 memory_backed=1 zoned=1 zone_size=$ZONE \
        zone_nr_conv=$CONVENTIONAL power=1; do
        echo "${attribute#*=}" > "$NULLB/$1/${attribute%=*}"
    done
}

# The kernel counts what is done to zones of null_blk's by drive and operation.
COUNTS=/sys/kernel/tracing/events/nullb/nullb_zone_op
operations() { sed -n "s/^{ op: *$1, disk: *$2 *} hitcount: *//p" $COUNTS/hist; }

# Begins to count, and learns the number of the operation that resets a zone.
count_resets() {
    mount -t tracefs none /sys/kernel/tracing
    echo hist:keys=op,disk > $COUNTS/trigger
    quiet blkzone reset --offset $((DRIVE * 2048 - ZONE * 2048)) --count 1 "/dev/$1"
    RESET=$(sed -n "s/^{ op: *\([0-9]*\), disk: *$1 *}.*/\1/p" $COUNTS/hist)
    test "$(operations "$RESET" "$1")" = 1
}

# Sectors that a drive has written and read, and how many of its zones were reset.
counts() {
    resets=$(operations "$RESET" "$1")
    awk -v resets="${resets:-0}" '{ print $7, $3, resets }' "/sys/block/$1/stat"
}

# Waits until nobody asks anything of a drive.
rest() {
    still=0
    last=
    for _ in $(seq $REST_MAX_S); do
        now=$(counts "$1")
        if test "$now" = "$last"; then still=$((still + 1)); else still=0; fi
        if test $still = $STILL_S; then return; fi
        last=$now
        sleep 1
    done
    echo "$1 is not at rest after $REST_MAX_S s"
    return 1
}

length() { echo $(($(cat "/sys/block/$1/size") * 512)); }

# fio on DEVICE: a name, a seed, then its other options. Each block has the load's name and its own place, so that
# neither an older block nor another one passes for it.
load() {
    name=$1
    seed=$2
    shift 2
    fio --name="$name" --filename="$DEVICE" --size="$USED" --ioengine=libaio --direct=1 --randseed="$seed" \
        --verify=pattern --verify_pattern="\"$name\"%o" "$@" > /tmp/said 2>&1 || { cat /tmp/said; return 1; }
}

# A load, until the drive is at rest; then all of it read back. Arguments: a name, a seed, how many bytes, fio's options.
measure() {
    name=$1
    seed=$2
    bytes=$3
    shift 3
    step "$SYSTEM: $name"
    before=$(counts "$DRIVE_NAME")
    load "$name" "$seed" --io_size="$bytes" --do_verify=0 --end_fsync=1 "$@"
    step "$SYSTEM: $name is written"
    rest "$DRIVE_NAME"
    echo "guest: load $SYSTEM $name $((bytes / 512)) $before $(counts "$DRIVE_NAME")"
    load "$name" "$seed" --io_size="$bytes" --verify_only "$@"
    # What another load would have written is not what is there.
    if load other "$seed" --io_size=1m --verify_only "$@" > /tmp/other; then return 1; fi
    grep -q verify /tmp/other
}

# All loads on DEVICE, over the drive DRIVE_NAME.
loads() {
    measure fill 1 "$USED" --rw=write --bs=256k --iodepth=1
    measure random-4k 2 "$USED" --rw=randwrite --bs=4k --iodepth=16
    measure random-64k 3 "$USED" --rw=randwrite --bs=64k --iodepth=16
    measure fsync-4k 4 $((USED / 4 / 65536 * 65536)) --rw=randwrite --bs=4k --iodepth=16 --fsync=32
}

story() {
    step "two drives of $DRIVE MiB, zones of $ZONE MiB, $CONVENTIONAL of them conventional"
    modules
    mount -t configfs none /sys/kernel/config
    drive nullb0
    drive nullb1
    count_resets nullb0
    echo "guest: length drive $(length nullb0)"

    : > /tmp/out
    imbrex serve --make --buffer $BUFFER --drive /dev/nullb0 --socket /tmp/socket > /tmp/out 2> /tmp/err &
    SERVER=$!
    until grep -q ' at nbd' /tmp/out; do
        kill -0 "$SERVER"
        sleep 0.1
    done
    quiet nbd-client -unix /tmp/socket /dev/nbd0
    ours=$(length nbd0)
    echo "guest: length imbrex $ours"

    # dmzadm asks for its module by name, and there is no index of modules here.
    mkdir -p /etc/modprobe.d
    echo 'alias dm_zoned dm_zoned' > /etc/modprobe.d/dm-zoned.conf
    quiet dmzadm --format /dev/nullb1 --force
    quiet dmzadm --start /dev/nullb1
    theirs=$(length dm-0)
    echo "guest: length dm-zoned $theirs"

    less=$ours
    if test "$theirs" -lt "$ours"; then less=$theirs; fi
    USED=$((less * 8 / 10 / 262144 * 262144))
    echo "guest: length used $USED"

    SYSTEM=imbrex
    DEVICE=/dev/nbd0
    DRIVE_NAME=nullb0
    loads
    SYSTEM=dm-zoned
    DEVICE=/dev/dm-0
    DRIVE_NAME=nullb1
    loads
}

tell story
