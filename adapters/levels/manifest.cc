#include "manifest.h"

namespace imbrex_levels {
namespace {

constexpr size_t kBlockSize = 32768;
constexpr size_t kHeaderSize = 4 + 2 + 1;
constexpr size_t kRecyclableHeaderSize = 4 + 2 + 1 + 4;

// log_format.h; the recyclable types are these and 4 more.
enum RecordType { kZero = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4, kRecyclableFull = 5 };

// version_edit.h
enum Tag : uint32_t {
  kComparator = 1,
  kLogNumber = 2,
  kNextFileNumber = 3,
  kLastSequence = 4,
  kCompactCursor = 5,
  kDeletedFile = 6,
  kNewFile = 7,
  kPrevLogNumber = 9,
  kMinLogNumberToKeep = 10,
  kNewFile2 = 100,
  kNewFile3 = 102,
  kNewFile4 = 103,
  kColumnFamily = 200,
  kColumnFamilyAdd = 201,
  kColumnFamilyDrop = 202,
  kMaxColumnFamily = 203,
  kInAtomicGroup = 300,
};
constexpr uint32_t kTagSafeIgnoreMask = 1 << 13;
constexpr uint32_t kCustomTerminate = 1;

// Reads from a record. After a read that does not fit, everything is zero and `ok` is false.
struct Cursor {
  const char* at;
  const char* end;
  bool ok = true;

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      uint64_t byte = static_cast<unsigned char>(*at++);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    ok = false;
    return 0;
  }

  void Bytes() {
    uint64_t size = Varint();
    if (!ok || size > static_cast<uint64_t>(end - at)) {
      ok = false;
    } else {
      at += size;
    }
  }
};

}  // namespace

ManifestReader::ManifestReader(Found found, uint64_t len)
    : found_(std::move(found)), block_offset_(len % kBlockSize) {}

void ManifestReader::Append(const char* data, size_t size) {
  pending_.append(data, size);
  size_t at = 0;
  for (;;) {
    size_t left_in_block = kBlockSize - block_offset_;
    size_t have = pending_.size() - at;
    if (left_in_block < kHeaderSize) {  // The block's trailer.
      if (have < left_in_block) break;
      at += left_in_block;
      block_offset_ = 0;
      continue;
    }
    if (have < kHeaderSize) break;
    const unsigned char* header = reinterpret_cast<const unsigned char*>(pending_.data()) + at;
    size_t length = header[4] | static_cast<size_t>(header[5]) << 8;
    int type = header[6];
    bool recyclable = type >= kRecyclableFull && type < kRecyclableFull + 4;
    size_t header_size = recyclable ? kRecyclableHeaderSize : kHeaderSize;
    if (header_size + length > left_in_block) {  // Not a fragment: go on with the next block.
      if (have < left_in_block) break;
      at += left_in_block;
      block_offset_ = 0;
      in_record_ = false;
      continue;
    }
    if (have < header_size + length) break;
    Fragment(recyclable ? type - 4 : type, pending_.data() + at + header_size, length);
    at += header_size + length;
    block_offset_ = (block_offset_ + header_size + length) % kBlockSize;
  }
  pending_.erase(0, at);
}

void ManifestReader::Fragment(int type, const char* data, size_t size) {
  if (type == kFull || type == kFirst) {
    record_.assign(data, size);
    in_record_ = type == kFirst;
  } else if ((type == kMiddle || type == kLast) && in_record_) {
    record_.append(data, size);
    in_record_ = type == kMiddle;
  } else {
    in_record_ = false;
    return;
  }
  if (type == kFull || type == kLast) Edit(record_);
}

void ManifestReader::Edit(const std::string& record) {
  Cursor in{record.data(), record.data() + record.size()};
  while (in.ok && in.at < in.end) {
    uint32_t tag = static_cast<uint32_t>(in.Varint());
    switch (tag) {
      case kLogNumber:
      case kNextFileNumber:
      case kLastSequence:
      case kPrevLogNumber:
      case kMinLogNumberToKeep:
      case kColumnFamily:
      case kMaxColumnFamily:
      case kInAtomicGroup:
        in.Varint();
        break;
      case kComparator:
      case kColumnFamilyAdd:
        in.Bytes();
        break;
      case kColumnFamilyDrop:
        break;
      case kCompactCursor:
        in.Varint();
        in.Bytes();
        break;
      case kDeletedFile:
        in.Varint();
        in.Varint();
        break;
      case kNewFile:
      case kNewFile2:
      case kNewFile3:
      case kNewFile4: {
        int level = static_cast<int>(in.Varint());
        uint64_t number = in.Varint();
        if (tag == kNewFile3) in.Varint();  // path id
        in.Varint();                        // size
        in.Bytes();                         // smallest
        in.Bytes();                         // largest
        if (tag != kNewFile) {
          in.Varint();  // smallest sequence number
          in.Varint();  // largest
        }
        if (tag == kNewFile4) {
          while (in.ok && in.Varint() != kCustomTerminate) in.Bytes();
        }
        if (in.ok) found_(number, level);
        break;
      }
      default:
        if ((tag & kTagSafeIgnoreMask) == 0) return;
        in.Bytes();
    }
  }
}

}  // namespace imbrex_levels
