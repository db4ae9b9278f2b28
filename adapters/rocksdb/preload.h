// Replacements for a program's own calls to RocksDB once the adapter is preloaded.
#pragma once

#include <dlfcn.h>

#include <memory>

#include "rocksdb/env.h"
#include "rocksdb/sst_file_manager.h"

namespace imbrex_rocksdb {

// The environment of IMBREX_URI, which `imbrex run` sets for programs that take no URI. Null
// without it.
ROCKSDB_NAMESPACE::Env* ToldEnv();

// `asked`, DBOptions or Options, changed to the drive if its environment is the default one or
// null.
template <typename Options>
Options OnDrive(const Options& asked) {
  Options options = asked;
  bool is_default = options.env == nullptr || options.env == ROCKSDB_NAMESPACE::Env::Default();
  if (!is_default || ToldEnv() == nullptr) return options;
  options.env = ToldEnv();
  if (asked.sst_file_manager != nullptr) {
    // The program's own deletes on the host, where files of the same names may belong to another
    // user.
    options.sst_file_manager.reset(ROCKSDB_NAMESPACE::NewSstFileManager(
        ToldEnv(), nullptr, "", asked.sst_file_manager->GetDeleteRateBytesPerSecond(), true,
        nullptr, asked.sst_file_manager->GetMaxTrashDBRatio()));
  }
  return options;
}

// RocksDB's own function that `ours` replaces. Null if there is none.
template <typename Function>
Function* Next(Function* ours) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(ours), &self) == 0 || self.dli_sname == nullptr) return nullptr;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, self.dli_sname));
}

}  // namespace imbrex_rocksdb
