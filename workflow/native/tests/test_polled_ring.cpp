#include <gtest/gtest.h>

#include <vector>

#include "collector/polled_ring.hpp"

namespace acapella::collector {
namespace {

constexpr std::size_t kBytes = bytes_of(Format::tagged);

// A ring of four, and a device that writes reports to it: the second byte counts them.
struct Device {
    std::vector<std::byte> memory = std::vector<std::byte>(4 * kBytes);
    PolledRing ring{Format::tagged, memory.data(), 4};
    unsigned written = 0;

    void write(unsigned count) {
        for (unsigned i = 0; i < count; ++i, ++written) {
            std::byte* at = memory.data() + written % 4 * kBytes;
            at[0] = std::byte{2};
            at[1] = static_cast<std::byte>(written);
        }
    }
    std::vector<unsigned> poll() {
        std::vector<unsigned> found;
        ring.poll([&found](const std::byte* reports, std::uint32_t count) {
            for (std::uint32_t i = 0; i < count; ++i)
                found.push_back(std::to_integer<unsigned>(reports[i * kBytes + 1]));
        });
        return found;
    }
};

using Reports = std::vector<unsigned>;

TEST(PolledRing, TheNewestIsLeftForTheNextLook) {
    Device device;
    EXPECT_EQ(device.poll(), Reports{});
    device.write(3);
    EXPECT_EQ(device.poll(), (Reports{0, 1}));
    EXPECT_EQ(device.poll(), Reports{2});
    EXPECT_EQ(device.poll(), Reports{});
}

TEST(PolledRing, ReportsBehindTheEndComeInTheirOrder) {
    Device device;
    device.write(3);
    device.poll();
    device.poll();
    device.write(4);
    EXPECT_EQ(device.poll(), (Reports{3, 4, 5}));
    device.write(1);
    EXPECT_EQ(device.poll(), Reports{6});
    EXPECT_EQ(device.poll(), Reports{7});
}

TEST(PolledRing, ThePublishedFormatIsMarkedByItsTime) {
    std::vector<std::byte> memory(2 * bytes_of(Format::published));
    PolledRing ring(Format::published, memory.data(), 2);
    memory[63] = std::byte{1};
    std::uint32_t found = 0;
    const auto take = [&found](const std::byte*, std::uint32_t count) { found += count; };
    ring.poll(take);
    ring.poll(take);
    EXPECT_EQ(found, 1U);
    EXPECT_EQ(memory[63], std::byte{0});
    ring.poll(take);
    EXPECT_EQ(found, 1U);
}

}  // namespace
}  // namespace acapella::collector
