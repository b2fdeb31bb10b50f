// acapella-digest IN OUT SITE PORT MEMORY_BYTES RECORD [VENDORS...]: engine native of `acapella digest`
// without Python, for the node that recorded the capture. It is statically linked, so that nothing has to be
// installed. OUT contains both tables as columns (columns/column_file.hpp), from which `acapella digest`
// creates the Parquet files on the user's machine. RECORD is stored in OUT. IN must not be compressed.
//
// The facts about the capture, including whether it is damaged, are in OUT and are printed as JSON. The exit
// status is 0 if OUT is complete. Otherwise OUT is not written, and the exit status is 75 if memory or disk
// space is insufficient, and 2 for other errors.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "columns/column_file.hpp"
#include "confine/confinement.hpp"
#include "digest/facts.hpp"
#include "digest/native_digest.hpp"
#include "program.hpp"

namespace {

using namespace acapella;
using namespace acapella::programs;

enum Status { kComplete = 0, kError = 2, kTryAgain = 75 };

// As in workflow/src/acapella/digest/acap_files.py: each batch becomes a row group.
constexpr std::size_t kBatchRows = std::size_t{1} << 17;
constexpr std::uint32_t kFlowBatchRows = std::uint32_t{1} << 14;

class DiskFullError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Json {
  public:
    void operator()(const char* name, const std::string& value) {
        start(name);
        add_text(value);
    }
    void operator()(const char* name, std::uint64_t value) {
        start(name);
        text_ += std::to_string(value);
    }
    void operator()(const char* name, std::int64_t value) {
        start(name);
        text_ += std::to_string(value);
    }
    void operator()(const char* name, const std::vector<std::uint16_t>& values) {
        start(name);
        char separator = '[';
        for (const std::uint16_t value : values) {
            text_ += separator + std::to_string(value);
            separator = ',';
        }
        text_ += values.empty() ? "[]" : "]";
    }
    void operator()(const char* name, const NamedCounts& counts) {
        start(name);
        char separator = '{';
        for (const auto& [key, count] : counts) {
            text_ += separator;
            add_text(key);
            text_ += ':' + std::to_string(count);
            separator = ',';
        }
        text_ += counts.empty() ? "{}" : "}";
    }
    template <typename Value>
    void operator()(const char* name, const std::optional<Value>& value) {
        if (value) return operator()(name, *value);
        start(name);
        text_ += "null";
    }
    [[nodiscard]] std::string text() const { return text_ + '}'; }

  private:
    void start(const char* name) {
        text_ += text_.empty() ? '{' : ',';
        add_text(name);
        text_ += ':';
    }
    void add_text(std::string_view value) {
        text_ += '"';
        for (const char character : value) {
            if (character == '"' || character == '\\') text_ += '\\';
            text_ += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
        }
        text_ += '"';
    }

    std::string text_;
};

void write_all(int fd, const std::string& path, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            const bool full = errno == ENOSPC || errno == EDQUOT;
            const std::runtime_error fault = fault_of(path);
            if (full) throw DiskFullError(fault.what());
            throw fault;
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

// Returns the longest wire length in a batch of the frame table, or `longest` if that is longer.
std::uint32_t longest_frame(const Batch& batch, std::uint32_t longest) {
    const auto& columns = batch.columns.children;
    const auto lengths = std::find_if(columns.begin(), columns.end(),
                                      [](const Column& column) { return column.name == "wire_len"; });
    const auto* first = static_cast<const std::uint32_t*>(lengths->buffers[1]);
    return std::max(longest, *std::max_element(first, first + lengths->length));
}

std::string facts_of(const NativeDigest& digest, std::uint32_t longest) {
    Json facts;
    const auto put = [&facts](const char* name, const auto& value) { facts(name, value); };
    put_file_facts(digest.reader().info(), put);
    put_digest_facts(digest.builder().summary(), digest.builder().flow_table(), put);
    const bool has_frames = digest.builder().summary().frames > 0;
    put("longest_frame_bytes", has_frames ? std::optional<std::uint64_t>(longest) : std::nullopt);
    return facts.text();
}

// Writes all blocks of the digest to `out` and returns the facts as JSON.
std::string write_digest(NativeDigest& digest, const Output& out, const std::string& path,
                         const std::string& record) {
    const auto write_block = [&](std::string_view kind, std::string_view payload, std::string block = {}) {
        append_block(block, kind, payload);
        write_all(out.get(), path, block);
    };
    write_all(out.get(), path, kColumnFile);
    write_block("record  ", record);
    std::uint32_t longest = 0;
    while (const auto batch = digest.next_frames()) {
        longest = longest_frame(*batch, longest);
        write_block("frames  ", payload_of(*batch));
    }
    const std::uint32_t flows = digest.builder().flow_table().size();
    for (std::uint32_t first = 0; first < flows; first += kFlowBatchRows)
        write_block("flows   ", payload_of(digest.flow_rows(first, kFlowBatchRows)));
    write_block("position", digest.reader().positions());
    std::string facts = facts_of(digest, longest);
    write_block("facts   ", facts);
    return facts;
}

int run(int argc, char** argv) {
    if (argc < 7)
        throw std::runtime_error("usage: acapella-digest IN OUT SITE PORT MEMORY_BYTES RECORD [VENDORS...]");
    const std::string path = argv[2];
    const Vendors vendors = vendors_of(argv + 7, argv + argc);
    Output out(path);
    // the capture is untrusted input, and the program may run as root
    confine::confine_self({std::filesystem::absolute(path).parent_path()}, false, false);
    NativeDigest digest(argv[1], CapturePoint{argv[3], argv[4]}, kBatchRows, argc > 7 ? &vendors : nullptr,
                        {}, std::stoull(argv[5]));
    const std::string facts = write_digest(digest, out, path, argv[6]);
    out.finish();
    std::puts(facts.c_str());
    return kComplete;
}

}  // namespace

int main(int argc, char** argv) {
    int status = kError;
    std::string reason;
    try {
        return run(argc, argv);
    } catch (const MemoryLimitError& error) {
        status = kTryAgain;
        reason = error.what();
    } catch (const DiskFullError& error) {
        status = kTryAgain;
        reason = error.what();
    } catch (const std::bad_alloc&) {
        status = kTryAgain;
        reason = "out of memory";
    } catch (const std::exception& error) {
        reason = error.what();
    }
    std::fprintf(stderr, "acapella-digest: error: %s\n", reason.c_str());
    return status;
}
