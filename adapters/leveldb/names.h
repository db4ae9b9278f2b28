// What the names of LevelDB's files say, and statuses in its words.
#pragma once

#include <memory>
#include <string>

#include "../levels/drive.h"
#include "../levels/manifest.h"
#include "dialect.h"

namespace imbrex_leveldb {

// What became of a call on the file `path`.
leveldb::Status Translate(imbrex_status status, const std::string& path);

bool IsTable(const std::string& path);
bool IsManifest(const std::string& path);
// A write-ahead log.
bool IsLog(const std::string& path);

// How a file of this name will be used; a table's level comes later.
imbrex_hints HintsOf(const std::string& path);

// For a MANIFEST open for writing what tells the book and the drive the levels that it names from now on;
// null for other files.
std::unique_ptr<imbrex_levels::ManifestReader> ReadManifest(
    std::shared_ptr<imbrex_levels::Drive> drive, const std::string& path, imbrex_writer* writer);

}  // namespace imbrex_leveldb
