# A story of the guest's, after guest/begin.sh: makes zoned block devices of several kinds, runs the test of
# disk-host on them, then uses them as people do; the end is a reset in the middle of a load, twice.
# shellcheck shell=sh

NULLB=/sys/kernel/config/nullb
COUNT=4000
# What the load before a reset is made of.
PART_LEN=200
RESET_COUNT=2

# The block device of an NVMe namespace, by its number: names come in the order in which they were found.
namespace() {
    until grep -qsx "$1" /sys/block/nvme*/nsid; do sleep 0.1; done
    echo "/dev/$(grep -sx "$1" /sys/block/nvme*/nsid /dev/null | cut -d / -f 4)"
}

# What the kernel says of a device.
limit() { cat "/sys/block/${1#/dev/}/queue/$2"; }

modules() {
    while read -r module; do
        case $module in
            null_blk) set -- nr_devices=0 ;;
            scsi_debug)
                set -- dev_size_mb=96 zbc=managed zone_size_mb=1 zone_nr_conv=3 zone_max_open=8 \
                    sector_size=512 physblk_exp=3 fake_rw=0 delay=0
                ;;
            nbd) set -- nbds_max=1 ;;
            *) set -- ;;
        esac
        insmod "/lib/guest/$module.ko" "$@"
    done < /lib/guest/order
}

# A device of null_blk's with these attributes, kept in memory.
nullb() {
    name=$1
    shift
    mkdir "$NULLB/$name"
    for attribute in memory_backed=1 "$@" power=1; do
        echo "${attribute#*=}" > "$NULLB/$name/${attribute%=*}"
    done
}

devices() {
    step "the kernel's devices"
    modules
    mount -t configfs none /sys/kernel/config
    zoned="zoned=1 zone_size=1"
    # shellcheck disable=SC2086
    {
        nullb nullb0 size=32 blocksize=4096 $zoned zone_nr_conv=3 zone_max_open=8 zone_max_active=14
        nullb nullb1 size=64 blocksize=512 $zoned zone_nr_conv=0 zone_max_active=14
        nullb nullb2 size=64 blocksize=4096 $zoned zone_nr_conv=2
    }
    nullb nullb3 size=32 blocksize=4096
    until test -e /dev/sda; do sleep 0.1; done
    SCSI=/dev/sda
    for device in /dev/nullb0 /dev/nullb1 /dev/nullb2 "$SCSI" "$ZNS"; do
        test "$(limit "$device" zoned)" = host-managed
        test "$(blkzone report "$device" | wc -l)" = "$(limit "$device" nr_zones)"
        echo "guest:   $device: $(limit "$device" nr_zones) zones of $(($(limit "$device" chunk_sectors) / 2)) KiB," \
            "sectors of $(limit "$device" logical_block_size)," \
            "open at most $(limit "$device" max_open_zones), active $(limit "$device" max_active_zones)"
    done
}

requests() {
    step "requests, right and wrong, answered as by an emulated drive"
    IMBREX_ZONED_DEVICES="/dev/nullb0:/dev/nullb1:$SCSI:$ZNS" IMBREX_PLAIN_DEVICES="/dev/nullb3:$FLASH" \
        imbrex-devices > /tmp/out 2>&1
    sed 's/^/guest:   /' /tmp/out
    blank /dev/nullb0 /dev/nullb1 "$SCSI" "$ZNS"
}

blank() {
    for device in "$@"; do blkzone reset "$device"; done
}

# Runs what must succeed and hardly matters to a reader.
quiet() { "$@" > /tmp/said 2>&1 || { echo "failed: $*"; return 1; }; }

# Runs what must be refused with these words.
refused_with() {
    words=$1
    shift
    refused "$@" || { echo "not refused: $*"; return 1; }
    grep -q -e "$words" /tmp/said || { echo "no word of $words: $(cat /tmp/said)"; return 1; }
}

# Pairs by round, in files: lines for `load`, as `scan` prints them. The values are cut from Lehmer's random
# numbers, so that hardly anything shortens them.
lines() {
    for round in 0 1 2 3; do
        awk -v count=$COUNT -v round=$round 'BEGIN {
            for (x = 1; length(text) < 65536; text = text part)
                for (part = ""; length(part) < 1024; part = part sprintf("%07x", x / 8)) x = x * 16807 % 2147483647
            for (n = 0; n < count; n++) {
                value = substr(text, (n * 7919 + round * 104729) % 64000 + 1, 1000)
                printf "{\"key\":\"key%07d\",\"value\":\"%s\"}\n", n, value
            }
        }' > /tmp/lines.$round
    done
}

# Whether the store on a device holds those lines and no others.
holds() {
    expected=$1
    shift
    imbrex scan --format json "$@" > /tmp/scanned 2> /tmp/said
    cmp "$expected" /tmp/scanned
}

store() {
    step "$1: a store, made, loaded, read"
    quiet imbrex drive format "$1" --erase
    quiet imbrex drive info "$1"
    quiet imbrex drive zones "$1"
    quiet imbrex load "$1" /tmp/lines.0
    holds /tmp/lines.0 "$1"
    quiet imbrex check "$1"
    step "$1: loaded over and over, more than it has room for"
    for round in 1 2 0; do quiet imbrex load "$1" /tmp/lines.$round; done
    quiet imbrex put "$1" zz written
    test "$(imbrex get "$1" zz)" = written
    quiet imbrex delete "$1" zz
    quiet imbrex compact "$1"
    holds /tmp/lines.0 "$1"
    quiet imbrex check "$1"
}

# What was synced is there, and of the rest a prefix.
killed() {
    step "$1: nobody else opens it while it is open; killed in the middle of a load"
    rm -f /tmp/pipe
    mkfifo /tmp/pipe
    imbrex load "$1" /tmp/pipe --sync-every 100 > /tmp/out 2> /tmp/err &
    loader=$!
    exec 3> /tmp/pipe
    head -n $((COUNT * 3 / 4)) /tmp/lines.3 >&3
    refused_with 'in use' imbrex get "$1" key0000000
    refused_with 'in use' imbrex drive format "$1" --erase
    kill -9 $loader
    wait $loader || test $? = 137
    exec 3>&-
    imbrex scan --format json "$1" > /tmp/scanned 2> /tmp/said
    new=$(cmp /tmp/lines.3 /tmp/scanned | sed 's/.* line //')
    # But for what was not synced and what lay in the pipe and in a buffer.
    test "$new" -gt $((COUNT / 2))
    { head -n $((new - 1)) /tmp/lines.3; tail -n +"$new" /tmp/lines.0; } | cmp - /tmp/scanned
    quiet imbrex check "$1"
}

main() {
    devices
    requests
    lines
    for device in /dev/nullb0 /dev/nullb1 "$SCSI" "$ZNS"; do
        store "$device"
        killed "$device"
    done
    foreign
    spoiled
    for device in "$SCSI" "$ZNS"; do block_device "$device"; done
    offload
    begin_reset 0 0
}

foreign() {
    step "refused: what holds something, is in use, is nobody's, is no such device"
    refused_with 'it holds a store .*; --erase erases it' imbrex drive format /dev/nullb0
    quiet imbrex get /dev/nullb0 key0000000
    refused_with 'permission denied' /usr/bin/setpriv --reuid 65534 --clear-groups imbrex drive info /dev/nullb0
    quiet mkfs.ext4 -b 4096 /dev/nullb3
    refused_with 'it holds a file system, ext4 .*; --erase=ext4 erases it' imbrex drive format /dev/nullb3
    refused_with '--erase=ext4 erases it' imbrex drive format /dev/nullb3 --erase
    refused_with 'no file layer' imbrex get /dev/nullb3 key0000000
    offload="--layout smrdb-offload --flash /dev/nullb3"
    # shellcheck disable=SC2086
    refused_with 'erases it' imbrex drive format /dev/nullb2 $offload
    mount -t ext4 /dev/nullb3 /mnt
    refused_with 'in use' imbrex drive format /dev/nullb3 --erase
    # shellcheck disable=SC2086
    refused_with 'in use' imbrex drive format /dev/nullb2 $offload --erase
    umount /mnt
    quiet e2fsck -f -n /dev/nullb3
    quiet imbrex drive format /dev/nullb1 --blank --erase
    refused_with 'shorter than 4096 bytes' imbrex serve --make --drive /dev/nullb1 --socket /tmp/socket
    refused_with 'no such' imbrex drive format /dev/none
    refused_with 'image' imbrex drive format /dev/null
}

# The first sector of the first zone in that condition.
first() { blkzone report "$1" | awk -F '[ :,]+' -v condition="($2)" 'index($0, condition) { print $3; exit }'; }

# What still reads of a damaged store is saved: lines of those files, and no others.
saved() {
    device=$1
    shift
    status=0
    imbrex scan --format json --skip-damage "$device" > /tmp/scanned 2> /tmp/said || status=$?
    test $status = 5
    test -s /tmp/scanned
    awk 'FILENAME != "/tmp/scanned" { known[$0] } FILENAME == "/tmp/scanned" && !($0 in known) { exit 1 }' \
        "$@" /tmp/scanned
}

# Two zones fail, one that holds something and one that does not: what is there is read, and written on.
spoiled() {
    step "/dev/nullb2: a zone becomes read-only, another one is lost"
    quiet imbrex drive format /dev/nullb2 --erase
    quiet imbrex load /dev/nullb2 /tmp/lines.0
    echo $(($(first /dev/nullb2 fu))) > $NULLB/nullb2/zone_readonly
    echo $(($(first /dev/nullb2 em))) > $NULLB/nullb2/zone_offline
    blkzone report /dev/nullb2 | grep -q '(ro)'
    blkzone report /dev/nullb2 | grep -q '(of)'
    quiet imbrex drive zones /dev/nullb2
    holds /tmp/lines.0 /dev/nullb2
    for round in 1 2; do quiet imbrex load /dev/nullb2 /tmp/lines.$round; done
    holds /tmp/lines.2 /dev/nullb2
    quiet imbrex check /dev/nullb2
    step "/dev/nullb2: a zone is lost that holds something; the rest is saved"
    echo $(($(first /dev/nullb2 fu))) > $NULLB/nullb2/zone_offline
    refused_with 'is offline.*\(--skip-damage\|imbrex salvage\)' imbrex scan /dev/nullb2
    # Values may be old ones.
    saved /dev/nullb2 /tmp/lines.0 /tmp/lines.1 /tmp/lines.2
    step "/dev/nullb2: made anew with what is left of it"
    quiet imbrex drive format /dev/nullb2 --erase
    quiet imbrex load /dev/nullb2 /tmp/lines.0
    holds /tmp/lines.0 /dev/nullb2
    step "/dev/nullb2: a sector cannot be read, and the device says no more than that there was an error"
    sector=$(($(first /dev/nullb2 fu) + 64))
    echo "+$sector-$((sector + 7))" > $NULLB/nullb2/badblocks
    refused dd if=/dev/nullb2 of=/tmp/sector bs=4k skip=$((sector / 8)) count=1 iflag=direct
    refused_with 'cannot be read.*\(--skip-damage\|imbrex salvage\)' imbrex scan /dev/nullb2
    saved /dev/nullb2 /tmp/lines.0
    test "$(wc -l < /tmp/scanned)" -gt $((COUNT / 2))
    echo "-$sector-$((sector + 7))" > $NULLB/nullb2/badblocks
    holds /tmp/lines.0 /dev/nullb2
}

serve() {
    # The words of the last server are not this one's.
    : > /tmp/out
    imbrex serve --make --buffer 8MiB --drive "$1" --socket /tmp/socket > /tmp/out 2> /tmp/err &
    SERVER=$!
    until grep -q ' at nbd' /tmp/out; do
        kill -0 "$SERVER"
        sleep 0.1
    done
    quiet nbd-client -unix /tmp/socket /dev/nbd0
}

# Ends it as a user does.
stop() {
    quiet nbd-client -d /dev/nbd0
    kill -TERM "$SERVER"
    wait "$SERVER"
}

block_device() {
    step "$1: a block device for a file system"
    quiet imbrex drive format "$1" --blank --erase
    serve "$1"
    mkfs.ext4 -q -b 4096 /dev/nbd0
    mount -t ext4 /dev/nbd0 /mnt
    for number in 1 2 3 4; do dd if=/dev/urandom of=/mnt/$number bs=1M count=$number 2> /tmp/said; done
    (cd /mnt && sha256sum [1-4]) > /tmp/sums
    umount /mnt
    stop
    quiet imbrex check "$1"
    step "$1: killed under a mounted file system; what was synced is there"
    serve "$1"
    mount -t ext4 /dev/nbd0 /mnt
    echo synced > /mnt/synced
    sync /mnt/synced /mnt
    kill -9 "$SERVER"
    wait "$SERVER" || test $? = 137
    umount /mnt
    nbd-client -d /dev/nbd0 > /tmp/said 2>&1
    serve "$1"
    mount -t ext4 /dev/nbd0 /mnt
    test "$(cat /mnt/synced)" = synced
    (cd /mnt && sha256sum -c -s /tmp/sums)
    umount /mnt
    stop
    quiet imbrex check "$1"
}

offload() {
    step "$SCSI and $FLASH: a store that writes to flash first"
    quiet imbrex drive format "$SCSI" --layout smrdb-offload --flash "$FLASH" --erase
    for round in 0 1; do quiet imbrex load "$SCSI" --flash "$FLASH" /tmp/lines.$round; done
    holds /tmp/lines.1 "$SCSI" --flash "$FLASH"
    quiet imbrex check "$SCSI" --flash "$FLASH"
    refused_with 'name it with --flash FILE' imbrex get "$SCSI" key0000000
}

# What survives a reset beside what is tested: a word, how many resets there were, how many parts were acknowledged.
note() { echo "$*" | dd of="$NOTES" bs=4k count=1 conv=sync,fsync 2> /tmp/said; }
noted() { dd if="$NOTES" bs=4k count=1 2> /tmp/said | tr -d '\0'; }

# Loads parts, each acknowledged when the command has ended, and then all the rest, in which the reset comes: after
# three parts more were read, but for what lies in a pipe and in a buffer.
begin_reset() {
    test "$1" != 0 || quiet imbrex drive format "$ZNS" --erase
    step "$ZNS: reset number $(($1 + 1)) in the middle of a load"
    for part in $(seq "$2" $(($2 + 3))); do
        tail -n +$((part * PART_LEN + 1)) /tmp/lines.0 | head -n $PART_LEN > /tmp/part
        quiet imbrex load "$ZNS" /tmp/part
        note reset "$1" $((part + 1))
    done
    mkfifo /tmp/reset
    {
        tail -n +$(((part + 1) * PART_LEN + 1)) /tmp/lines.0 | head -n $((3 * PART_LEN))
        echo b > /proc/sysrq-trigger &
        tail -n +$(((part + 4) * PART_LEN + 1)) /tmp/lines.0
    } > /tmp/reset &
    imbrex load "$ZNS" /tmp/reset --sync-every 50
    false
}

after_reset() {
    lines
    # shellcheck disable=SC2046
    set -- $(noted)
    imbrex scan --format json "$ZNS" > /tmp/scanned 2> /tmp/said
    count=$(wc -l < /tmp/scanned)
    step "$ZNS: after the reset $count pairs are there, $(($3 * PART_LEN)) were told to be"
    test "$count" -gt $((($3 + 2) * PART_LEN))
    head -n "$count" /tmp/lines.0 | cmp - /tmp/scanned
    quiet imbrex check "$ZNS"
    test $(($2 + 1)) = $RESET_COUNT || begin_reset $(($2 + 1)) "$3"
    quiet imbrex load "$ZNS" /tmp/lines.1
    holds /tmp/lines.1 "$ZNS"
    quiet imbrex check "$ZNS"
}

story() {
    # See NAMESPACES in zoned.rs.
    ZNS=$(namespace 1)
    FLASH=$(namespace 2)
    NOTES=$(namespace 3)
    case $(noted) in
        "")
            note began
            main
            ;;
        reset*) after_reset ;;
        *)
            echo "the kernel began anew, and nobody had asked it to"
            false
            ;;
    esac
}

tell story
