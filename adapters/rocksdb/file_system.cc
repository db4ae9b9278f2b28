#include "file_system.h"

#include <cstring>

namespace imbrex_rocksdb {
namespace {

class Lock : public FileLock {
 public:
  explicit Lock(std::string path) : path(std::move(path)) {}
  const std::string path;
};

}  // namespace

IOStatus OpenFileSystem(const std::string& uri, std::unique_ptr<FileSystem>* result) {
  std::string error;
  std::shared_ptr<Drive> drive = Drive::Open(uri, &error);
  if (drive == nullptr) return IOStatus::IOError(uri, error);
  result->reset(new ImbrexFileSystem(uri, drive));
  return IOStatus::OK();
}

IOStatus ImbrexFileSystem::Stat(const std::string& path, imbrex_file_stat* stat) {
  return Translate(imbrex_stat(drive_->get(), path.c_str(), stat), path);
}

IOStatus ImbrexFileSystem::OpenWriter(const std::string& path, bool append,
                                      imbrex_writer** writer) {
  imbrex_hints hints = HintsOf(ClassOf(path));
  if (LevelBook::Get().Needed(Normal(path))) hints.may_use_reserve = 1;
  imbrex_status status = IMBREX_STATUS_NOT_FOUND;
  if (append) status = imbrex_writer_open(drive_->get(), path.c_str(), writer);
  if (status == IMBREX_STATUS_NOT_FOUND) {
    status = imbrex_writer_create(drive_->get(), path.c_str(), &hints, writer);
  }
  return Translate(status, path);
}

IOStatus ImbrexFileSystem::NewSequentialFile(const std::string& path, const FileOptions&,
                                             std::unique_ptr<FSSequentialFile>* result,
                                             IODebugContext*) {
  std::unique_ptr<ReaderHandle> reader;
  IOStatus status = ReaderHandle::Open(drive_, path, &reader);
  if (status.ok()) result->reset(new SequentialFile(std::move(reader)));
  return status;
}

IOStatus ImbrexFileSystem::NewRandomAccessFile(const std::string& path, const FileOptions&,
                                               std::unique_ptr<FSRandomAccessFile>* result,
                                               IODebugContext*) {
  std::unique_ptr<ReaderHandle> reader;
  IOStatus status = ReaderHandle::Open(drive_, path, &reader);
  if (status.ok()) result->reset(new RandomAccessFile(std::move(reader)));
  return status;
}

IOStatus ImbrexFileSystem::NewWritableFile(const std::string& path, const FileOptions&,
                                           std::unique_ptr<FSWritableFile>* result,
                                           IODebugContext*) {
  imbrex_writer* writer = nullptr;
  IOStatus status = OpenWriter(path, false, &writer);
  if (status.ok()) {
    result->reset(new WritableFile(drive_, Normal(path), writer));
  } else {
    LevelBook::Get().Deleted(Normal(path));
  }
  return status;
}

IOStatus ImbrexFileSystem::ReopenWritableFile(const std::string& path, const FileOptions&,
                                              std::unique_ptr<FSWritableFile>* result,
                                              IODebugContext*) {
  imbrex_writer* writer = nullptr;
  IOStatus status = OpenWriter(path, true, &writer);
  if (status.ok()) result->reset(new WritableFile(drive_, Normal(path), writer));
  return status;
}

IOStatus ImbrexFileSystem::NewRandomRWFile(const std::string& path, const FileOptions&,
                                           std::unique_ptr<FSRandomRWFile>* result,
                                           IODebugContext*) {
  imbrex_writer* writer = nullptr;
  imbrex_status opened = imbrex_writer_open(drive_->get(), path.c_str(), &writer);
  if (opened != IMBREX_STATUS_OK) return Translate(opened, path);
  std::unique_ptr<ReaderHandle> reader;
  IOStatus status = ReaderHandle::Open(drive_, path, &reader);
  if (!status.ok()) {
    imbrex_writer_close(writer);
    return status;
  }
  result->reset(new RandomRWFile(path, writer, std::move(reader)));
  return status;
}

IOStatus ImbrexFileSystem::NewDirectory(const std::string& path, const IOOptions&,
                                        std::unique_ptr<FSDirectory>* result, IODebugContext*) {
  imbrex_file_stat stat;
  IOStatus status = Stat(path, &stat);
  if (status.ok() && !stat.is_dir) status = IOStatus::IOError(path, "not a directory");
  if (status.ok()) result->reset(new Directory(drive_, path));
  return status;
}

IOStatus ImbrexFileSystem::FileExists(const std::string& path, const IOOptions&, IODebugContext*) {
  imbrex_file_stat stat;
  imbrex_status status = imbrex_stat(drive_->get(), path.c_str(), &stat);
  if (status == IMBREX_STATUS_NOT_FOUND || status == IMBREX_STATUS_NOT_A_DIRECTORY) {
    return IOStatus::NotFound();
  }
  return Translate(status, path);
}

IOStatus ImbrexFileSystem::GetChildren(const std::string& path, const IOOptions&,
                                       std::vector<std::string>* result, IODebugContext*) {
  result->clear();
  imbrex_names* names = nullptr;
  imbrex_status status = imbrex_list(drive_->get(), path.c_str(), &names);
  if (status == IMBREX_STATUS_NOT_FOUND || status == IMBREX_STATUS_NOT_A_DIRECTORY) {
    return IOStatus::NotFound(path, imbrex_last_error());
  }
  if (status != IMBREX_STATUS_OK) return Translate(status, path);
  size_t count = imbrex_names_count(names);
  for (size_t i = 0; i < count; i++) result->push_back(imbrex_names_get(names, i));
  imbrex_names_close(names);
  return IOStatus::OK();
}

IOStatus ImbrexFileSystem::DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) {
  imbrex_status status = imbrex_unlink(drive_->get(), path.c_str());
  if (status == IMBREX_STATUS_OK) LevelBook::Get().Deleted(Normal(path));
  return Translate(status, path);
}

IOStatus ImbrexFileSystem::Truncate(const std::string& path, size_t size, const IOOptions&,
                                    IODebugContext*) {
  imbrex_writer* writer = nullptr;
  imbrex_status status = imbrex_writer_open(drive_->get(), path.c_str(), &writer);
  if (status != IMBREX_STATUS_OK) return Translate(status, path);
  IOStatus truncated = Translate(imbrex_writer_truncate(writer, size), path);
  IOStatus closed = Translate(imbrex_writer_close(writer), path);
  return truncated.ok() ? closed : truncated;
}

IOStatus ImbrexFileSystem::CreateDir(const std::string& path, const IOOptions&, IODebugContext*) {
  // A checkpoint's program made its directory on the host, so it does not exist here.
  const std::string whole = Normal(path);
  const std::string parent = whole.substr(0, whole.rfind('/'));
  if (!parent.empty()) {
    imbrex_status made = imbrex_make_dir(drive_->get(), parent.c_str(), true);
    if (made != IMBREX_STATUS_OK) return Translate(made, parent);
  }
  return Translate(imbrex_make_dir(drive_->get(), path.c_str(), false), path);
}

IOStatus ImbrexFileSystem::CreateDirIfMissing(const std::string& path, const IOOptions&,
                                              IODebugContext*) {
  return Translate(imbrex_make_dir(drive_->get(), path.c_str(), true), path);
}

IOStatus ImbrexFileSystem::DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) {
  return Translate(imbrex_remove_dir(drive_->get(), path.c_str()), path);
}

IOStatus ImbrexFileSystem::GetFileSize(const std::string& path, const IOOptions&, uint64_t* size,
                                       IODebugContext*) {
  imbrex_file_stat stat;
  IOStatus status = Stat(path, &stat);
  *size = status.ok() ? stat.len_bytes : 0;
  return status;
}

IOStatus ImbrexFileSystem::GetFileModificationTime(const std::string& path, const IOOptions&,
                                                   uint64_t* time, IODebugContext*) {
  imbrex_file_stat stat;
  IOStatus status = Stat(path, &stat);
  *time = status.ok() ? stat.mtime_s : 0;
  return status;
}

IOStatus ImbrexFileSystem::RenameFile(const std::string& from, const std::string& to,
                                      const IOOptions&, IODebugContext*) {
  imbrex_status status = imbrex_rename(drive_->get(), from.c_str(), to.c_str());
  if (status == IMBREX_STATUS_OK) LevelBook::Get().Renamed(Normal(from), Normal(to));
  return Translate(status, from);
}

IOStatus ImbrexFileSystem::LinkFile(const std::string& from, const std::string& to,
                                    const IOOptions&, IODebugContext*) {
  return Translate(imbrex_link(drive_->get(), from.c_str(), to.c_str()), to);
}

IOStatus ImbrexFileSystem::NumFileLinks(const std::string& path, const IOOptions&, uint64_t* count,
                                        IODebugContext*) {
  imbrex_file_stat stat;
  IOStatus status = Stat(path, &stat);
  *count = status.ok() ? stat.link_count : 0;
  return status;
}

IOStatus ImbrexFileSystem::AreFilesSame(const std::string& one, const std::string& two,
                                        const IOOptions&, bool* same, IODebugContext*) {
  imbrex_file_stat stats[2];
  for (int i = 0; i < 2; i++) {
    IOStatus status = Stat(i == 0 ? one : two, &stats[i]);
    if (!status.ok()) return status;
  }
  if (stats[0].is_dir || stats[1].is_dir) {
    // A directory has only one path.
    *same = stats[0].is_dir && stats[1].is_dir && Normal(one) == Normal(two);
    return IOStatus::OK();
  }
  std::string ids[2];
  const std::string* paths[2] = {&one, &two};
  for (int i = 0; i < 2; i++) {
    std::unique_ptr<ReaderHandle> reader;
    IOStatus status = ReaderHandle::Open(drive_, *paths[i], &reader);
    if (!status.ok()) return status;
    char id[32];
    ids[i].assign(id, reader->UniqueId(id, sizeof id));
  }
  *same = ids[0] == ids[1];
  return IOStatus::OK();
}

IOStatus ImbrexFileSystem::LockFile(const std::string& path, const IOOptions&, FileLock** lock,
                                    IODebugContext*) {
  *lock = nullptr;
  IOStatus status = Translate(imbrex_lock(drive_->get(), path.c_str()), path);
  if (status.ok()) *lock = new Lock(path);
  return status;
}

IOStatus ImbrexFileSystem::UnlockFile(FileLock* lock, const IOOptions&, IODebugContext*) {
  std::unique_ptr<Lock> held(static_cast<Lock*>(lock));
  return Translate(imbrex_unlock(drive_->get(), held->path.c_str()), held->path);
}

IOStatus ImbrexFileSystem::GetTestDirectory(const IOOptions& options, std::string* path,
                                            IODebugContext* dbg) {
  *path = "/rocksdbtest";
  return CreateDirIfMissing(*path, options, dbg);
}

IOStatus ImbrexFileSystem::GetAbsolutePath(const std::string& path, const IOOptions&,
                                           std::string* output, IODebugContext*) {
  *output = Normal(path);
  return IOStatus::OK();
}

IOStatus ImbrexFileSystem::GetFreeSpace(const std::string& path, const IOOptions&, uint64_t* free,
                                        IODebugContext*) {
  imbrex_drive_stats stats;
  imbrex_status status = imbrex_drive_get_stats(drive_->get(), &stats);
  *free = status == IMBREX_STATUS_OK ? stats.free_bytes + stats.dead_bytes : 0;
  return Translate(status, path);
}

IOStatus ImbrexFileSystem::IsDirectory(const std::string& path, const IOOptions&, bool* is_dir,
                                       IODebugContext*) {
  imbrex_file_stat stat;
  IOStatus status = Stat(path, &stat);
  *is_dir = status.ok() && stat.is_dir;
  return status;
}

}  // namespace imbrex_rocksdb
