#include "names.h"

#include <cstring>

#include "info_log.h"

namespace imbrex_leveldb {

using imbrex_levels::Drive;
using imbrex_levels::ManifestReader;
using leveldb::Status;

namespace {

bool EndsWith(const std::string& text, const char* end) {
  size_t size = strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Status Translate(imbrex_status status, const std::string& path) {
  switch (status) {
    case IMBREX_STATUS_OK:
      return Status::OK();
    case IMBREX_STATUS_NOT_FOUND:
      return Status::NotFound(path, imbrex_last_error());
    case IMBREX_STATUS_CORRUPT:
      return Status::Corruption(path, imbrex_last_error());
    case IMBREX_STATUS_INVALID:
      return Status::InvalidArgument(path, imbrex_last_error());
    default:
      return Status::IOError(path, imbrex_last_error());
  }
}

bool IsTable(const std::string& path) { return EndsWith(path, ".ldb") || EndsWith(path, ".sst"); }

bool IsManifest(const std::string& path) { return BaseName(path).compare(0, 9, "MANIFEST-") == 0; }

bool IsLog(const std::string& path) { return EndsWith(path, ".log"); }

imbrex_hints HintsOf(const std::string& path) {
  imbrex_hints hints;
  memset(&hints, 0, sizeof hints);
  std::string name = BaseName(path);
  if (IsTable(path)) {
    hints.kind = IMBREX_KIND_TABLE;
  } else if (IsManifest(path)) {
    hints.kind = IMBREX_KIND_LOG;
    hints.may_use_reserve = 1;  // Without it nothing can be deleted.
  } else if (IsLog(path) || name == "LOG") {
    hints.kind = IMBREX_KIND_LOG;
  } else if (EndsWith(name, ".dbtmp") || name == "CURRENT" || name == "LOCK") {
    hints.kind = IMBREX_KIND_METADATA;
  } else {
    hints.kind = IMBREX_KIND_OTHER;
  }
  return hints;
}

std::unique_ptr<ManifestReader> ReadManifest(std::shared_ptr<Drive> drive,
                                             const std::string& path, imbrex_writer* writer) {
  if (!IsManifest(path)) return nullptr;
  uint64_t len = 0;  // With `reuse_logs` it goes on where it ended.
  if (imbrex_writer_len(writer, &len) != IMBREX_STATUS_OK) return nullptr;
  std::string directory = path.substr(0, path.rfind('/'));
  auto found = [drive, directory](uint64_t number, int level) {
    drive->SetLevel(TablePath(directory, number), level);
  };
  return std::unique_ptr<ManifestReader>(new ManifestReader(found, len));
}

}  // namespace imbrex_leveldb
