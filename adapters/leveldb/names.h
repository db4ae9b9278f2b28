// Meaning of the names of LevelDB's files, and conversion of statuses.
#pragma once

#include <memory>
#include <string>

#include "../levels/drive.h"
#include "../levels/manifest.h"
#include "dialect.h"

namespace imbrex_leveldb {

// The status of a call on the file `path`.
leveldb::Status Translate(imbrex_status status, const std::string& path);

bool IsTable(const std::string& path);
bool IsManifest(const std::string& path);
// Whether the name is that of a write-ahead log.
bool IsLog(const std::string& path);

// How a file with this name will be used. A table's level is set later.
imbrex_hints HintsOf(const std::string& path);

// For a MANIFEST open for writing, a reader that passes the levels it names from now on to the book
// and the drive. Null for other files.
std::unique_ptr<imbrex_levels::ManifestReader> ReadManifest(
    std::shared_ptr<imbrex_levels::Drive> drive, const std::string& path, imbrex_writer* writer);

}  // namespace imbrex_leveldb
