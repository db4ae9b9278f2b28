// RocksDB's functions on a database's name, other than opening it for writing. Each takes the
// environment from its options. The default one would be the host's, where a database of the same
// name may belong to another user.

#include <string>
#include <vector>

#include "preload.h"
#include "rocksdb/db.h"

namespace imbrex_rocksdb {
namespace {

using ROCKSDB_NAMESPACE::Status;

// Calls RocksDB's function that `ours` replaces.
template <typename... Parameters, typename... Arguments>
Status Call(Status (*ours)(Parameters...), const Arguments&... arguments) {
  auto* real = Next(ours);
  if (real == nullptr) {
    return Status::NotSupported("imbrex", "this librocksdb lacks a function to stand before");
  }
  return real(arguments...);
}

}  // namespace
}  // namespace imbrex_rocksdb

namespace ROCKSDB_NAMESPACE {

using imbrex_rocksdb::Call;
using imbrex_rocksdb::OnDrive;
using Families = std::vector<ColumnFamilyDescriptor>;
using Handles = std::vector<ColumnFamilyHandle*>;

#define IMBREX_VISIBLE __attribute__((visibility("default")))

IMBREX_VISIBLE Status DB::OpenForReadOnly(const Options& options, const std::string& name, DB** db,
                                          bool error_if_wal_file_exists) {
  using Function = Status(const Options&, const std::string&, DB**, bool);
  Function* ours = &DB::OpenForReadOnly;
  return Call(ours, OnDrive(options), name, db, error_if_wal_file_exists);
}

IMBREX_VISIBLE Status DB::OpenForReadOnly(const DBOptions& options, const std::string& name,
                                          const Families& families, Handles* handles, DB** db,
                                          bool error_if_wal_file_exists) {
  using Function =
      Status(const DBOptions&, const std::string&, const Families&, Handles*, DB**, bool);
  Function* ours = &DB::OpenForReadOnly;
  return Call(ours, OnDrive(options), name, families, handles, db, error_if_wal_file_exists);
}

IMBREX_VISIBLE Status DB::OpenAsSecondary(const Options& options, const std::string& name,
                                          const std::string& secondary_path, DB** db) {
  using Function = Status(const Options&, const std::string&, const std::string&, DB**);
  Function* ours = &DB::OpenAsSecondary;
  return Call(ours, OnDrive(options), name, secondary_path, db);
}

IMBREX_VISIBLE Status DB::OpenAsSecondary(const DBOptions& options, const std::string& name,
                                          const std::string& secondary_path,
                                          const Families& families, Handles* handles, DB** db) {
  using Function = Status(const DBOptions&, const std::string&, const std::string&, const Families&,
                          Handles*, DB**);
  Function* ours = &DB::OpenAsSecondary;
  return Call(ours, OnDrive(options), name, secondary_path, families, handles, db);
}

IMBREX_VISIBLE Status DB::ListColumnFamilies(const DBOptions& options, const std::string& name,
                                             std::vector<std::string>* families) {
  return Call(&DB::ListColumnFamilies, OnDrive(options), name, families);
}

IMBREX_VISIBLE Status RepairDB(const std::string& name, const Options& options) {
  using Function = Status(const std::string&, const Options&);
  Function* ours = &RepairDB;
  return Call(ours, name, OnDrive(options));
}

IMBREX_VISIBLE Status RepairDB(const std::string& name, const DBOptions& options,
                               const Families& families) {
  using Function = Status(const std::string&, const DBOptions&, const Families&);
  Function* ours = &RepairDB;
  return Call(ours, name, OnDrive(options), families);
}

IMBREX_VISIBLE Status RepairDB(const std::string& name, const DBOptions& options,
                               const Families& families, const ColumnFamilyOptions& unknown) {
  using Function =
      Status(const std::string&, const DBOptions&, const Families&, const ColumnFamilyOptions&);
  Function* ours = &RepairDB;
  return Call(ours, name, OnDrive(options), families, unknown);
}

IMBREX_VISIBLE Status DestroyDB(const std::string& name, const Options& options,
                                const Families& families) {
  return Call(&DestroyDB, name, OnDrive(options), families);
}

}  // namespace ROCKSDB_NAMESPACE
