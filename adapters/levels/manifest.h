// The MANIFEST, read as it is written: which table is of which level.
//
//   bytes appended -> blocks of 32 KiB -> fragments -> records -> version edits -> AddFile(number, level)
//
// Format: log_format.h and version_edit.h of RocksDB 7.8, of which LevelDB 1.23's is a subset.
// Unknown content is skipped up to the next record: this reader informs placement and recovers
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace imbrex_levels {

class ManifestReader {
 public:
  using Found = std::function<void(uint64_t number, int level)>;

  // For a file that already has `len` bytes of whole records; block boundaries follow from that.
  ManifestReader(Found found, uint64_t len);

  // The next bytes of the file.
  void Append(const char* data, size_t size);

 private:
  void Fragment(int type, const char* data, size_t size);
  void Edit(const std::string& record);

  Found found_;
  std::string pending_;       // of the block at hand, not yet a whole fragment
  size_t block_offset_;       // of pending_ in its block
  std::string record_;
  bool in_record_ = false;
};

}  // namespace imbrex_levels
