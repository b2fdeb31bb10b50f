// acapella-anonymize IN OUT.pcap KEY_FILE replace|blank [VENDORS...]: `acapella anonymize` without Python,
// for the node that recorded the capture. It is statically linked, so that nothing has to be installed. Exit
// status 0: OUT is complete. 1: the capture is damaged. 2: error, and OUT was not written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "anonymize/file.hpp"
#include "dissect/vendors.hpp"
#include "input/input_error.hpp"
#include "program.hpp"

namespace {

using namespace acapella;
using namespace acapella::programs;
using anonymize::kKey;

enum Status { kComplete = 0, kDamaged = 1, kError = 2 };

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
    const std::string policy = argv[4];
    if (policy != "replace" && policy != "blank")
        throw std::runtime_error(policy + ": expected replace or blank");
    const auto key = key_of(argv[3]);
    const Vendors vendors = vendors_of(argv + 5, argv + argc);
    Output out(argv[2]);
    const anonymize::FileCounts counts = [&] {
        try {
            return anonymize::anonymize_file(
                argv[1], out.get(), key,
                policy == "blank" ? anonymize::MacPolicy::blank : anonymize::MacPolicy::replace,
                argc > 5 ? &vendors : nullptr, [] {});
        } catch (const anonymize::WriteError& error) {
            throw std::runtime_error(std::string(argv[2]) + ": " + error.what() + "; free some space");
        }
    }();
    out.finish();
    if (!damaged(counts.info.end)) return kComplete;
    std::fprintf(stderr, "acapella-anonymize: error: %s: %s\n", argv[1], counts.info.end_detail.c_str());
    return kDamaged;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "acapella-anonymize: error: %s\n", error.what());
        return kError;
    }
}
