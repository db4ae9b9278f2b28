#include "files.h"

#include <cstdio>
#include <cstring>

namespace imbrex_rocksdb {
namespace {

bool EndsWith(const std::string& text, const char* end) {
  size_t size = strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

const uint8_t* Bytes(const Slice& data) { return reinterpret_cast<const uint8_t*>(data.data()); }

// What RocksDB's hints say about a table's level: medium for the youngest, then longer ones.
// Source: ColumnFamilyData::CalculateSSTWriteHint; a flush runs at high priority.
int GuessLevel(Env::WriteLifeTimeHint hint, Env::IOPriority priority) {
  switch (hint) {
    case Env::WLTH_MEDIUM:
      return priority == Env::IO_HIGH ? 0 : 1;
    case Env::WLTH_LONG:
      return 2;
    case Env::WLTH_EXTREME:
      return 3;
    default:
      return -1;
  }
}

std::string TablePath(const std::string& manifest, uint64_t number) {
  char name[32];
  snprintf(name, sizeof name, "%06llu.sst", static_cast<unsigned long long>(number));
  return manifest.substr(0, manifest.rfind('/') + 1) + name;
}

}  // namespace

IOStatus Translate(imbrex_status status, const std::string& path) {
  if (status == IMBREX_STATUS_OK) return IOStatus::OK();
  std::string why = imbrex_last_error();
  switch (status) {
    case IMBREX_STATUS_NOT_FOUND:
      return IOStatus::PathNotFound(path, why);
    case IMBREX_STATUS_NO_SPACE:
      return IOStatus::NoSpace(path, why);
    case IMBREX_STATUS_CORRUPT:
      return IOStatus::Corruption(path, why);
    case IMBREX_STATUS_INVALID:
      return IOStatus::InvalidArgument(path, why);
    default:
      return IOStatus::IOError(path, why);
  }
}

FileClass ClassOf(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  // A backup's copy before it is complete, and files that are deleted slowly, count as the kind of
  // the original.
  for (const char* end : {".tmp", ".trash"}) {
    if (EndsWith(name, end)) name.resize(name.size() - strlen(end));
  }
  if (EndsWith(name, ".sst") || EndsWith(name, ".blob")) return FileClass::kTable;
  if (EndsWith(name, ".log")) return FileClass::kWal;
  if (name.compare(0, 9, "MANIFEST-") == 0) return FileClass::kManifest;
  // In a `db_log_dir`, after the database's path.
  if (name == "LOG" || EndsWith(name, "_LOG") || name.compare(0, 8, "LOG.old.") == 0 ||
      name.find("_LOG.old.") != std::string::npos) {
    return FileClass::kInfoLog;
  }
  if (name == "CURRENT" || name == "IDENTITY" || name == "LOCK" || EndsWith(name, ".dbtmp") ||
      name.compare(0, 8, "OPTIONS-") == 0) {
    return FileClass::kMetadata;
  }
  return FileClass::kOther;
}

imbrex_hints HintsOf(FileClass file_class) {
  imbrex_hints hints;
  memset(&hints, 0, sizeof hints);
  switch (file_class) {
    case FileClass::kTable:
      hints.kind = IMBREX_KIND_TABLE;
      break;
    case FileClass::kManifest:
      // Nothing can be deleted without it.
      hints.may_use_reserve = 1;
      hints.kind = IMBREX_KIND_LOG;
      break;
    case FileClass::kWal:
    case FileClass::kInfoLog:
      hints.kind = IMBREX_KIND_LOG;
      break;
    case FileClass::kMetadata:
      hints.may_use_reserve = 1;
      hints.kind = IMBREX_KIND_METADATA;
      break;
    case FileClass::kOther:
      hints.kind = IMBREX_KIND_OTHER;
      break;
  }
  return hints;
}

IOStatus ReaderHandle::Open(const std::shared_ptr<Drive>& drive, const std::string& path,
                            std::unique_ptr<ReaderHandle>* result) {
  imbrex_reader* reader = nullptr;
  imbrex_status status = imbrex_reader_open(drive->get(), path.c_str(), &reader);
  if (status != IMBREX_STATUS_OK) return Translate(status, path);
  result->reset(new ReaderHandle(drive, path, reader));
  return IOStatus::OK();
}

IOStatus ReaderHandle::Read(uint64_t offset, size_t n, Slice* result, char* scratch) const {
  if (scratch == nullptr && n > 0) {
    // Plain and cuckoo tables read only through mmap, and would follow a null pointer.
    return IOStatus::NotSupported(path_, "a read without a buffer: files of a drive cannot be mapped");
  }
  size_t got = 0;
  imbrex_status status =
      imbrex_reader_read_at(reader_, offset, reinterpret_cast<uint8_t*>(scratch), n, &got);
  *result = Slice(scratch, got);
  return Translate(status, path_);
}

size_t ReaderHandle::UniqueId(char* id, size_t max_size) const {
  uint64_t number = 0;
  if (max_size < 1 + sizeof number) return 0;
  if (imbrex_reader_id(reader_, &number) != IMBREX_STATUS_OK) return 0;
  id[0] = 'i';
  memcpy(id + 1, &number, sizeof number);
  return 1 + sizeof number;
}

namespace {

// Damage in a log is more than the torn end for which RocksDB would take a corruption status: it
// would open without the synced writes behind it. It does not ignore a device error.
IOStatus NoTornEnd(IOStatus status) {
  return status.IsCorruption() ? IOStatus::IOError(status.ToString()) : status;
}

}  // namespace

IOStatus SequentialFile::Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                              IODebugContext*) {
  IOStatus status = NoTornEnd(reader_->Read(offset_, n, result, scratch));
  if (status.ok()) offset_ += result->size();
  return status;
}

IOStatus SequentialFile::Skip(uint64_t n) {
  offset_ += n;
  return IOStatus::OK();
}

IOStatus SequentialFile::PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                                        char* scratch, IODebugContext*) {
  return NoTornEnd(reader_->Read(offset, n, result, scratch));
}

IOStatus RandomAccessFile::Read(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                                char* scratch, IODebugContext*) const {
  return reader_->Read(offset, n, result, scratch);
}

size_t RandomAccessFile::GetUniqueId(char* id, size_t max_size) const {
  return reader_->UniqueId(id, max_size);
}

WritableFile::WritableFile(std::shared_ptr<Drive> drive, std::string path, imbrex_writer* writer)
    : drive_(std::move(drive)), path_(std::move(path)), writer_(writer), class_(ClassOf(path_)) {
  if (class_ == FileClass::kTable) LevelBook::Get().Created(path_);
  uint64_t len = 0;
  if (class_ != FileClass::kManifest) return;
  if (imbrex_writer_len(writer_, &len) != IMBREX_STATUS_OK) return;
  manifest_.reset(new ManifestReader([this](uint64_t number, int level) {
    drive_->SetLevel(TablePath(path_, number), level);
  }, len));
}

WritableFile::~WritableFile() {
  if (writer_ != nullptr) Close(IOOptions(), nullptr).PermitUncheckedError();
}

void WritableFile::TellLevel() {
  if (class_ != FileClass::kTable) return;
  Knowledge known = LevelBook::Get().Known(path_, GuessLevel(write_hint_, io_priority_));
  imbrex_hints hints = HintsOf(class_);
  hints.level = static_cast<uint8_t>(known.level > 0 ? known.level : 0);
  hints.may_use_reserve = known.needed;
  hints.stream = known.stream;
  imbrex_writer_set_hints(writer_, &hints);
}

void WritableFile::TellLevelOnce() {
  if (told_) return;
  told_ = true;
  TellLevel();
}

void WritableFile::MindManifest(const Slice& data) {
  if (manifest_ != nullptr) manifest_->Append(data.data(), data.size());
}

IOStatus WritableFile::Append(const Slice& data, const IOOptions&, IODebugContext*) {
  TellLevelOnce();
  imbrex_status status = imbrex_writer_append(writer_, Bytes(data), data.size());
  if (status != IMBREX_STATUS_OK) return Translate(status, path_);
  MindManifest(data);
  return IOStatus::OK();
}

IOStatus WritableFile::PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&,
                                        IODebugContext*) {
  TellLevelOnce();
  imbrex_status status = imbrex_writer_write_at(writer_, offset, Bytes(data), data.size());
  if (status != IMBREX_STATUS_OK) return Translate(status, path_);
  MindManifest(data);
  return IOStatus::OK();
}

IOStatus WritableFile::Truncate(uint64_t size, const IOOptions&, IODebugContext*) {
  return Translate(imbrex_writer_truncate(writer_, size), path_);
}

IOStatus WritableFile::Sync(const IOOptions&, IODebugContext*) {
  TellLevel();
  return Translate(imbrex_writer_sync(writer_), path_);
}

IOStatus WritableFile::Close(const IOOptions&, IODebugContext*) {
  if (writer_ == nullptr) return IOStatus::OK();
  TellLevel();
  imbrex_writer* writer = writer_;
  writer_ = nullptr;
  return Translate(imbrex_writer_close(writer), path_);
}

uint64_t WritableFile::GetFileSize(const IOOptions&, IODebugContext*) {
  uint64_t size = 0;
  if (writer_ != nullptr) imbrex_writer_len(writer_, &size);
  return size;
}

IOStatus RandomRWFile::Write(uint64_t offset, const Slice& data, const IOOptions&,
                             IODebugContext*) {
  return Translate(imbrex_writer_write_at(writer_, offset, Bytes(data), data.size()), path_);
}

IOStatus RandomRWFile::Read(uint64_t offset, size_t n, const IOOptions&, Slice* result,
                            char* scratch, IODebugContext*) const {
  return reader_->Read(offset, n, result, scratch);
}

IOStatus RandomRWFile::Sync(const IOOptions&, IODebugContext*) {
  return Translate(imbrex_writer_sync(writer_), path_);
}

IOStatus RandomRWFile::Close(const IOOptions&, IODebugContext*) {
  imbrex_writer* writer = writer_;
  writer_ = nullptr;
  return Translate(imbrex_writer_close(writer), path_);
}

}  // namespace imbrex_rocksdb
