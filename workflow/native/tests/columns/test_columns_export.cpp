// Columns exported through the Arrow C data interface, and the release of their buffers.
#include <gtest/gtest.h>

#include <cstring>

#include "columns/frame_columns.hpp"
#include "columns/values.hpp"
#include "flow/flow_frames.hpp"

namespace acapella {
namespace {

class Frames : public testing::Test {
  protected:
    Frames() {
        tcp = header_stacks.intern("eth:ethertype:ip:tcp", "Ethernet/IPv4/TCP");
        tls = header_stacks.intern("eth:ethertype:ip:tcp:tls", "Ethernet/IPv4/TCP/TLS");
    }
    void add(std::uint32_t stack, std::uint32_t flow = 0) {
        columns.add(test::row(0, {}), stack, flow, L4By::kNative, AppBy::kUnidentified);
    }

    HeaderStacks header_stacks;
    FrameColumns columns{header_stacks, 4};
    std::uint32_t tcp, tls;
};

const Column& column(const Batch& batch, std::string_view name) {
    for (const Column& child : batch.columns.children)
        if (child.name == name) return child;
    throw std::out_of_range(std::string(name));
}

std::string text(const Column& dictionary, std::size_t row) {
    const auto* offsets = static_cast<const std::int32_t*>(dictionary.dictionary->buffers[1]);
    const auto index = static_cast<const std::uint32_t*>(dictionary.buffers[1])[row];
    return {static_cast<const char*>(dictionary.dictionary->buffers[2]) + offsets[index],
            static_cast<std::size_t>(offsets[index + 1] - offsets[index])};
}

TEST_F(Frames, BatchHasOnlyItsTextsInOrderOfAppearance) {
    add(tls);
    add(tcp);
    columns.take();
    add(tcp);
    add(tls);
    add(tcp);
    const Batch batch = columns.take();
    const Column& protocols = column(batch, "protocols");
    EXPECT_EQ(protocols.length, 3);
    EXPECT_EQ(protocols.dictionary->length, 2);
    EXPECT_EQ(static_cast<const std::uint32_t*>(protocols.buffers[1])[0], 0);
    EXPECT_EQ(text(protocols, 0), "eth:ethertype:ip:tcp");
    EXPECT_EQ(text(protocols, 1), "eth:ethertype:ip:tcp:tls");
    EXPECT_EQ(text(column(batch, "stack"), 1), "Ethernet/IPv4/TCP/TLS");
}

TEST_F(Frames, NullsAreCountedAndColumnsWithoutNullsHaveNoBitmap) {
    add(tcp);
    add(tcp, kNone);
    const Batch batch = columns.take();
    const Column& flow = column(batch, "flow");
    EXPECT_EQ(flow.null_count, 1);
    EXPECT_EQ(*static_cast<const std::uint8_t*>(flow.buffers[0]) & 3, 1);
    EXPECT_EQ(column(batch, "tcp_seq").null_count, 0);
    EXPECT_EQ(column(batch, "tcp_seq").buffers[0], nullptr);
    EXPECT_EQ(column(batch, "issue").null_count, 2);
    EXPECT_EQ(column(batch, "app_by").null_count, 2);
}

TEST_F(Frames, ExportedBuffersLiveUntilTheReceiverReleasesThem) {
    add(tcp, 7);
    ArrowArray array;
    ArrowSchema schema;
    {
        const Batch batch = columns.take();
        export_schema(batch.columns, &schema);
        export_array(batch.columns, batch.owner, &array);
    }
    add(tls, 8);  // the next batch uses other buffers
    ASSERT_EQ(array.n_children, 17);
    EXPECT_STREQ(schema.children[7]->name, "flow");
    EXPECT_EQ(static_cast<const std::uint32_t*>(array.children[7]->buffers[1])[0], 7);
    EXPECT_NE(schema.children[5]->dictionary, nullptr);
    array.release(&array);
    schema.release(&schema);
    EXPECT_EQ(array.release, nullptr);
    EXPECT_EQ(schema.release, nullptr);
}

TEST_F(Frames, ReceiverMayKeepOneColumn) {
    add(tcp, 7);
    ArrowArray array;
    {
        const Batch batch = columns.take();
        export_array(batch.columns, batch.owner, &array);
    }
    ArrowArray moved = *array.children[7];
    array.children[7]->release = nullptr;
    array.release(&array);
    EXPECT_EQ(static_cast<const std::uint32_t*>(moved.buffers[1])[0], 7);
    moved.release(&moved);
}

TEST_F(Frames, ReleasedBuffersAreReused) {
    add(tcp);
    const void* first = column(columns.take(), "frame").buffers[1];  // released immediately
    add(tcp);
    columns.take();
    add(tcp);
    EXPECT_EQ(column(columns.take(), "frame").buffers[1], first);
}

TEST_F(Frames, BatchMayOutliveItsColumns) {
    auto shortlived = std::make_unique<FrameColumns>(header_stacks, 4);
    shortlived->add(test::row(0, {}), tcp, 5, L4By::kNative, AppBy::kNative);
    const Batch batch = shortlived->take();
    shortlived.reset();
    EXPECT_EQ(static_cast<const std::uint32_t*>(column(batch, "flow").buffers[1])[0], 5);
}

TEST(Bitmap, GrowsBeyondItsCapacity) {
    Bitmap bits(1);
    for (int i = 0; i < 1000; ++i) bits.add(i % 3 == 0);
    EXPECT_EQ(bits.nulls(), 666);
    const auto* bytes = static_cast<const std::uint8_t*>(bits.buffer());
    for (int i = 0; i < 1000; ++i) ASSERT_EQ((bytes[i / 8] >> (i % 8)) & 1, i % 3 == 0);
}

TEST(HeaderStacks, TokensAboveLayer4AreTheApplication) {
    HeaderStacks header_stacks;
    const std::uint32_t udp = header_stacks.intern("eth:ethertype:ip:udp", "Ethernet/IPv4/UDP");
    const std::uint32_t dns = header_stacks.with_application(udp, "dns");
    EXPECT_EQ(header_stacks.protocols_text(dns), "eth:ethertype:ip:udp:dns");
    EXPECT_EQ(header_stacks.stack_text(dns), "Ethernet/IPv4/UDP/DNS");
    ASSERT_EQ(header_stacks.applications(dns).size(), 1);
    EXPECT_EQ(header_stacks.tokens()[header_stacks.applications(dns)[0]], "dns");
    EXPECT_TRUE(header_stacks.applications(udp).empty());
    EXPECT_EQ(header_stacks.with_application(udp, "dns"), dns);
    EXPECT_EQ(header_stacks.intern("eth:ethertype:ip:udp:dns", "Ethernet/IPv4/UDP/DNS"), dns);
}

}  // namespace
}  // namespace acapella
