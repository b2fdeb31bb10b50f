#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "input/capture_bytes.hpp"
#include "input/pcapng_writer.hpp"

namespace acapella::test {
namespace {

using input::ByteSource;
using input::PcapngWriter;

class WrittenFile : public testing::Test {
  protected:
    WrittenFile()
        : path_(std::filesystem::temp_directory_path() / ("acapella-written-" + std::to_string(::getpid()))) {
        descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    ~WrittenFile() override {
        ::close(descriptor_);
        std::filesystem::remove(path_);
    }

    Reading read_back() {
        const auto source = ByteSource::open(path_);
        return read_source(*source);
    }

    std::filesystem::path path_;
    int descriptor_;
};

TEST_F(WrittenFile, FramesOfSeveralLinkTypesAreReadBack) {
    const auto file = join({section(), interface(1), interface(101), interface(123), packet(1, 61, 1500, 0),
                            packet(2, 0, 40, 1), packet(3, 60, 60, 2), packet(1, 4, 4, 0)});
    const auto source = ByteSource::from_memory(file, "memory");
    const auto reader = input::open_capture(*source);
    PcapngWriter writer(descriptor_);
    Record record;
    while (reader->next(record)) {
        ASSERT_TRUE(writer.write(record));
    }
    ASSERT_TRUE(writer.flush());
    EXPECT_EQ(writer.frames(), 4U);
    EXPECT_EQ(read_back().frames, read_all(file).frames);
}

TEST_F(WrittenFile, NanosecondsAndManyFlushes) {
    const std::vector<std::byte> bytes(1000, std::byte{7});
    PcapngWriter writer(descriptor_);
    Record record;
    record.link_type = 1;
    record.bytes = bytes;
    record.wire_len = 1514;
    for (int i = 0; i < 2000; ++i) {
        record.ts_ns = 1'700'000'000'000'000'001 + i;
        ASSERT_TRUE(writer.write(record));
    }
    record.ts_ns = -1;
    ASSERT_TRUE(writer.write(record));
    ASSERT_TRUE(writer.flush());
    const auto reading = read_back();
    ASSERT_EQ(reading.frames.size(), 2001U);
    EXPECT_EQ(reading.frames[1999].ts_ns, 1'700'000'000'000'002'000);
    EXPECT_EQ(reading.frames[2000].ts_ns, 0);
}

TEST_F(WrittenFile, FileWithoutFramesIsACapture) {
    PcapngWriter writer(descriptor_);
    ASSERT_TRUE(writer.flush());
    EXPECT_TRUE(read_back().frames.empty());
}

TEST(PcapngWriter, BrokenPipeIsAnErrorNotASignal) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[0]);
    PcapngWriter writer(ends[1]);
    EXPECT_FALSE(writer.flush());
    EXPECT_EQ(writer.error_number(), EPIPE);
    EXPECT_FALSE(writer.write(Record{})) << "an error is permanent";
    EXPECT_FALSE(writer.error().empty());
    ::close(ends[1]);
}

TEST(PcapngWriter, NoSpaceLeftIsAnError) {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0) {
        GTEST_SKIP() << "no /dev/full here";
    }
    PcapngWriter writer(full);
    EXPECT_FALSE(writer.flush());
    EXPECT_EQ(writer.error_number(), ENOSPC);
    ::close(full);
}

}  // namespace
}  // namespace acapella::test
