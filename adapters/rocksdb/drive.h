// A drive and what a call on it came to, in RocksDB's words.
#pragma once

#include <memory>
#include <string>

#include "imbrex.h"
#include "rocksdb/io_status.h"

namespace imbrex_rocksdb {

using ROCKSDB_NAMESPACE::IOStatus;

// What became of a call on the file `path`.
IOStatus Translate(imbrex_status status, const std::string& path);

// imbrex://DRIVE or imbrex://DRIVE?layout=NAME
struct Uri {
  std::string image;
  std::string layout;
};
bool ParseUri(const std::string& text, Uri* uri);

// An open drive. Closed with the last file or file system on it; synced before the process exits.
class Drive {
 public:
  static IOStatus Open(const Uri& uri, std::shared_ptr<Drive>* drive);
  ~Drive();

  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;

  imbrex_drive* get() const { return drive_; }

 private:
  explicit Drive(imbrex_drive* drive) : drive_(drive) {}

  imbrex_drive* drive_;
};

}  // namespace imbrex_rocksdb
