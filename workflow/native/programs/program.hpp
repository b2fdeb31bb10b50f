// Code shared by the programs for nodes: files, errors and vendor lists. Each program is one source file,
// linked statically.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "dissect/vendors.hpp"

namespace acapella::programs {

inline std::runtime_error fault_of(const std::string& path) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return std::runtime_error(path + ": " + std::strerror(errno) + (full ? "; free some space" : ""));
}

class Descriptor {
  public:
    Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {
        if (fd_ < 0) throw fault_of(path);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(fd_); }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

// The output file. It is removed unless it is complete, so that it takes no space on a full disk.
class Output {
  public:
    explicit Output(const std::string& path) : path_(path), file_(path, O_WRONLY | O_CREAT | O_TRUNC) {}
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    ~Output() {
        struct stat found {};  // never remove a device
        if (!complete_ && fstat(file_.get(), &found) == 0 && S_ISREG(found.st_mode)) unlink(path_.c_str());
    }
    [[nodiscard]] int get() const { return file_.get(); }
    void finish() {
        if (fsync(file_.get()) != 0) throw fault_of(path_);
        complete_ = true;
    }

  private:
    std::string path_;
    Descriptor file_;
    bool complete_ = false;
};

inline Vendors vendors_of(char** first, char** last) {
    Vendors vendors;
    for (; first != last; ++first) {
        std::ifstream list(*first, std::ios::binary);
        if (!list) throw std::runtime_error(std::string(*first) + ": cannot read");
        vendors.add(std::string(std::istreambuf_iterator<char>(list), {}));
    }
    return vendors;
}

}  // namespace acapella::programs
