// The memory of a million flows. Together with the memory of Python and the batches (test_memory.py), it must
// remain below 512 MiB.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <cstring>
#include <string>

#include "flow/flow_frames.hpp"
#include "flow/flow_table.hpp"
#include "hybrid/application_cache.hpp"
#include "hybrid/selection.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // not declared in any header of GCC
#endif

namespace acapella {
namespace {

using test::dissection;
using test::row;

// A quarter of a million flows gives the same load of the indexes as a million, because their sizes are
// powers of two.
constexpr std::uint32_t kFlows = 250'000;
constexpr double kTimes = 4;
constexpr double kMiB = 1024.0 * 1024.0;

double allocated_mib() {
#if defined(__SANITIZE_ADDRESS__)
    return static_cast<double>(__sanitizer_get_current_allocated_bytes()) / kMiB;
#else
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd) / kMiB;
#endif
}

// One direction of a connection with its own endpoints and labels, as in acapella-generate --profile single.
Dissection direction(std::uint32_t number) {
    const std::uint32_t connection = number / 2;
    const bool back = number % 2 == 1;
    Dissection d = dissection({}, {static_cast<std::uint16_t>(100 + connection % 3900)}, {16, 16 + number});
    std::memcpy(d.src.data(), &connection, sizeof connection);
    if (back) std::swap(d.src, d.dst);
    if (back) std::swap(d.src_port, d.dst_port);
    return d;
}

struct Tables {
    FlowKeys keys{TableHash(1)};
    FlowTable flow_table{keys};

    std::uint32_t add_frame(std::uint32_t number, const FrameApplication& application) {
        const std::uint32_t key = keys.intern(direction(number));
        flow_table.add(row(key, {.flags = kPsh | kAck, .payload = 100}), 0, application);
        return key;
    }
};

TEST(FlowMemory, MillionFlowsNeedLessThan310MiB) {
    const double start_mib = allocated_mib();
    Tables tables;
    for (std::uint32_t flow = 0; flow < kFlows; ++flow) tables.add_frame(flow, {});
    ASSERT_EQ(tables.flow_table.size(), kFlows);
    ASSERT_NE(tables.flow_table.peer(kFlows - 1), kNone);
    const double used_mib = kTimes * (allocated_mib() - start_mib);
    RecordProperty("mib", std::to_string(used_mib));
    EXPECT_LT(used_mib, 310);
    EXPECT_GT(used_mib, 150) << "allocated_mib() does not count all memory";
    const double counted =
        kTimes * static_cast<double>(tables.keys.bytes() + tables.flow_table.bytes()) / kMiB;
    EXPECT_NEAR(counted, used_mib, used_mib / 20) << "a digest compares bytes() with its memory limit";
}

TEST(FlowMemory, MillionFlowsWithLabelsAndPayloadKindsNeedLessThan355MiB) {
    constexpr double kKindsMib = 14;  // kMaxKinds, for any number of flows
    const double start_mib = allocated_mib();
    const std::array<std::uint32_t, 1> tokens{0};
    Tables tables;
    hybrid::Selection selection({}, TableHash(1));
    hybrid::ApplicationCache applications(selection);
    for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
        const std::uint32_t key = tables.add_frame(flow, {.tokens = tokens});
        const Bytes payload = std::as_bytes(std::span(&flow, 1));
        applications.learn(selection.select(key, payload, 100).kind, "data");
    }
    ASSERT_EQ(selection.size(), hybrid::kMaxKinds);
    const double used_mib = kTimes * (allocated_mib() - start_mib - kKindsMib) + kKindsMib;
    RecordProperty("mib", std::to_string(used_mib));
    EXPECT_LT(used_mib, 355);
}

}  // namespace
}  // namespace acapella
