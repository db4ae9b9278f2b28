// Makes an unmodified program use a drive. This preloaded library registers the file system. It
// also replaces DBImpl::Open, to learn for which level each table is written, and to put the
// databases of programs without URIs on the drive.

#include "preload.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "file_system.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/utilities/object_registry.h"

namespace imbrex_rocksdb {
namespace {

using ROCKSDB_NAMESPACE::BlobFileCreationBriefInfo;
using ROCKSDB_NAMESPACE::BlobFileCreationReason;
using ROCKSDB_NAMESPACE::CompactionJobInfo;
using ROCKSDB_NAMESPACE::DB;
using ROCKSDB_NAMESPACE::EventListener;
using ROCKSDB_NAMESPACE::FileCreationBriefInfo;
using ROCKSDB_NAMESPACE::ObjectLibrary;
using ROCKSDB_NAMESPACE::TableFileCreationBriefInfo;
using ROCKSDB_NAMESPACE::TableFileCreationReason;

// A compaction announces where its output goes before it creates any; subcompactions share its
// number. The output of compactions, and flushes from the logs of an opening, must be written
// before anything can be deleted.
class LevelListener : public EventListener {
 public:
  void OnCompactionBegin(DB* db, const CompactionJobInfo& info) override {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_[{db->GetName(), info.job_id}] = info.output_level;
  }

  void OnCompactionCompleted(DB* db, const CompactionJobInfo& info) override {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_.erase({db->GetName(), info.job_id});
  }

  void OnTableFileCreationStarted(const TableFileCreationBriefInfo& info) override {
    if (info.reason == TableFileCreationReason::kMisc) return;
    const bool compaction = info.reason == TableFileCreationReason::kCompaction;
    const std::string path = Normal(info.file_path);
    const std::string called = Normal(info.db_name) + path.substr(path.rfind('/'));
    const bool recovery = info.reason == TableFileCreationReason::kRecovery;
    LevelBook::Get().Expect(path, LevelOf(info, compaction), compaction || recovery, called,
                            StreamOf(info));
  }

  // It has the level of the table to which it belongs. No MANIFEST names its level later.
  void OnBlobFileCreationStarted(const BlobFileCreationBriefInfo& info) override {
    const bool compaction = info.reason == BlobFileCreationReason::kCompaction;
    const bool recovery = info.reason == BlobFileCreationReason::kRecovery;
    LevelBook::Get().Expect(Normal(info.file_path), LevelOf(info, compaction),
                            compaction || recovery, "", StreamOf(info));
  }

 private:
  // -1 if a job has not announced where its output goes, as CompactFiles() does not.
  int LevelOf(const FileCreationBriefInfo& info, bool compaction) {
    if (!compaction) return 0;
    std::lock_guard<std::mutex> lock(mutex_);
    auto job = jobs_.find({info.db_name, info.job_id});
    return job == jobs_.end() ? -1 : job->second;
  }

  // A column family has levels of its own. Its number is made of its name, so that it is the same
  // after the next opening (FNV-1a). The default family has 0, like the tables of older drives.
  static uint32_t StreamOf(const FileCreationBriefInfo& info) {
    if (info.cf_name == ROCKSDB_NAMESPACE::kDefaultColumnFamilyName) return 0;
    uint32_t hash = 2166136261u;
    for (char byte : info.db_name + '\0' + info.cf_name) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619u;
    }
    return hash;
  }

  std::mutex mutex_;
  std::map<std::pair<std::string, int>, int> jobs_;
};

// Registration opens no drive: that waits for a URI.
int Register() {
  const auto pattern = ObjectLibrary::PatternEntry("imbrex", false).AddSeparator("://", false);
  ObjectLibrary::Default()->AddFactory<FileSystem>(
      pattern, [](const std::string& uri, std::unique_ptr<FileSystem>* guard, std::string* error) {
        IOStatus status = OpenFileSystem(uri, guard);
        if (!status.ok()) {
          *error = status.ToString();
          // Debian's tools continue without a file system and crash silently, so print the error
          // for them.
          fprintf(stderr, "imbrex: %s\n", status.ToString().c_str());
          if (getenv("IMBREX_RUN") != nullptr) exit(4);
        }
        return guard->get();
      });
  return 0;
}

const int registered = Register();

}  // namespace

// Opened once, and never closed before the process ends.
ROCKSDB_NAMESPACE::Env* ToldEnv() {
  static ROCKSDB_NAMESPACE::Env* const env = []() -> ROCKSDB_NAMESPACE::Env* {
    const char* uri = getenv("IMBREX_URI");
    if (uri == nullptr) return nullptr;
    std::unique_ptr<FileSystem> opened;
    IOStatus status = OpenFileSystem(uri, &opened);
    if (!status.ok()) {
      fprintf(stderr, "imbrex: %s\n", status.ToString().c_str());
      exit(4);
    }
    std::shared_ptr<FileSystem> file_system(std::move(opened));
    return ROCKSDB_NAMESPACE::NewCompositeEnv(file_system).release();
  }();
  return env;
}

// The options with which this program opens a database for writing, instead of `asked`.
ROCKSDB_NAMESPACE::DBOptions Hooked(const ROCKSDB_NAMESPACE::DBOptions& asked) {
  ROCKSDB_NAMESPACE::DBOptions options = OnDrive(asked);
  options.listeners.push_back(std::make_shared<LevelListener>());
  // RocksDB relies on the kernel for read-ahead, but a drive has no page cache.
  if (options.compaction_readahead_size == 0) options.compaction_readahead_size = 2 << 20;
  return options;
}

}  // namespace imbrex_rocksdb

namespace ROCKSDB_NAMESPACE {

// RocksDB's own class. Only one function of it is needed here, to which all ways of opening a
// database for writing lead.
class DBImpl {
 public:
  static Status Open(const DBOptions& db_options, const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& column_families,
                     std::vector<ColumnFamilyHandle*>* handles, DB** db, const bool seq_per_batch,
                     const bool batch_per_txn);
};

__attribute__((visibility("default"))) Status DBImpl::Open(
    const DBOptions& db_options, const std::string& name,
    const std::vector<ColumnFamilyDescriptor>& column_families,
    std::vector<ColumnFamilyHandle*>* handles, DB** db, const bool seq_per_batch,
    const bool batch_per_txn) {
  static auto* const real = imbrex_rocksdb::Next(&DBImpl::Open);
  if (real == nullptr) {
    return Status::NotSupported("imbrex", "this librocksdb has no DBImpl::Open to stand before");
  }
  return real(imbrex_rocksdb::Hooked(db_options), name, column_families, handles, db, seq_per_batch, batch_per_txn);
}

}  // namespace ROCKSDB_NAMESPACE
