// acapella-anonymize IN OUT.pcap KEY_FILE replace|blank [VENDORS...]: `acapella anonymize` without Python,
// for the node that recorded the capture. It is statically linked, so that nothing has to be installed. Exit
// status 0: OUT is complete. 1: the capture is damaged. 2: error, and OUT was not written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "anonymize/file.hpp"
#include "dissect/vendors.hpp"
#include "input/input_error.hpp"

namespace {

using namespace acapella;
using anonymize::kKey;

enum Status { kWhole = 0, kDamaged = 1, kNothing = 2 };

std::runtime_error fault_of(const std::string& path) {
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
        struct stat found {};  // never a device
        if (!whole_ && fstat(file_.get(), &found) == 0 && S_ISREG(found.st_mode)) unlink(path_.c_str());
    }
    [[nodiscard]] int get() const { return file_.get(); }
    void finish() {
        if (fsync(file_.get()) != 0) throw fault_of(path_);
        whole_ = true;
    }

  private:
    std::string path_;
    Descriptor file_;
    bool whole_ = false;
};

// Reads the key like acapella_core.anonymize.read_key. No message contains any part of the key.
std::array<std::byte, kKey> key_of(const std::string& path) {
    const Descriptor file(path, O_RDONLY | O_NONBLOCK);
    struct stat found {};
    if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode))
        throw std::runtime_error(path + ": not a regular file");
    if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        throw std::runtime_error(path + ": other users can access this key; chmod 600");
    std::array<std::byte, kKey + 1> buffer{};
    if (read(file.get(), buffer.data(), buffer.size()) != kKey)
        throw std::runtime_error(path + ": expected a key of 32 bytes");
    std::array<std::byte, kKey> key{};
    std::memcpy(key.data(), buffer.data(), kKey);
    return key;
}

Vendors vendors_of(char** first, char** last) {
    Vendors vendors;
    for (; first != last; ++first) {
        std::ifstream list(*first, std::ios::binary);
        if (!list) throw std::runtime_error(std::string(*first) + ": cannot read");
        vendors.add(std::string(std::istreambuf_iterator<char>(list), {}));
    }
    return vendors;
}

// Returns true if the capture is damaged, with the same meaning as DAMAGED in `acapella digest`: frames may
// be invalid, or existing data was not read.
bool damaged(input::FileEnd end) {
    using input::FileEnd;
    return end != FileEnd::clean && end != FileEnd::cut_header && end != FileEnd::cut_record &&
           end != FileEnd::cut_compressed && end != FileEnd::trailing_bytes;
}

int run(int argc, char** argv) {
    if (argc < 5)
        throw std::runtime_error("usage: acapella-anonymize IN OUT.pcap KEY_FILE replace|blank [VENDORS...]");
    const std::string how = argv[4];
    if (how != "replace" && how != "blank") throw std::runtime_error(how + ": replace or blank");
    const auto key = key_of(argv[3]);
    const Vendors vendors = vendors_of(argv + 5, argv + argc);
    Output out(argv[2]);
    const anonymize::FileCounts counts = [&] {
        try {
            return anonymize::anonymize_file(
                argv[1], out.get(), key,
                how == "blank" ? anonymize::MacPolicy::blank : anonymize::MacPolicy::replace,
                argc > 5 ? &vendors : nullptr, [] {});
        } catch (const anonymize::WriteError& error) {
            throw std::runtime_error(std::string(argv[2]) + ": " + error.what() + "; free some space");
        }
    }();
    out.finish();
    if (!damaged(counts.info.end)) return kWhole;
    std::fprintf(stderr, "acapella-anonymize: error: %s: %s\n", argv[1], counts.info.end_detail.c_str());
    return kDamaged;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "acapella-anonymize: error: %s\n", error.what());
        return kNothing;
    }
}
