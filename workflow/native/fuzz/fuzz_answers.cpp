// Arbitrary bytes as the output of tshark: the fields of a line must be within the line, and the keys of its
// frame within their arrays. One of 64 inputs, chosen by hash, is also read with the reader's thread through
// a pipe.
//
// Input: one byte of options (bit 0: the layout; the other bits: the order in which the core read the tags),
// then lines.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "hybrid/field_lists.hpp"
#include "hybrid/tshark_columns.hpp"
#include "hybrid/tshark_output.hpp"

namespace {

using namespace acapella;
using namespace acapella::hybrid;

constexpr std::size_t kMaxInPipe = 1 << 15;  // fits in a pipe without a reader

void check(bool holds) {
    if (!holds) std::abort();
}

TsharkRow row_of(std::string_view line, Layout layout) {
    TsharkRow row;
    if (layout == Layout::kColumns)
        split_columns(line, row);
    else
        for (std::string_view rest = line; std::string_view & field : row.fields) field = take(rest, '\t');
    for (const std::string_view field : row.fields)
        check(field.empty() ||
              (field.data() >= line.data() && field.data() + field.size() <= line.data() + line.size()));
    return row;
}

Dissection keys_of(const TsharkRow& row) {
    Dissection keys;
    keys.reset();
    take_keys(row, keys);
    check(keys.vlan_count <= kMaxVlans && keys.label_count <= kMaxLabels && keys.tunnel_count <= kMaxTunnels);
    check(keys.ip_version == 0 || keys.ip_version == 4 || keys.ip_version == 6);
    return keys;
}

// Checks that no tag is lost or added if the tags are sorted in the order of the core.
void check_order(Dissection keys, std::uint8_t choices) {
    Dissection core = keys;
    for (unsigned i = 0; i < core.vlan_count; ++i)
        core.vlans[i] = keys.vlans[(i + choices) % core.vlan_count];
    for (unsigned i = 0; i < core.label_count; ++i)
        core.labels[i] = keys.labels[(i + choices) % core.label_count];
    const Dissection before = keys;
    CoreTags(1, core).order(keys);
    check(std::is_permutation(keys.vlans.begin(), keys.vlans.begin() + keys.vlan_count, before.vlans.begin(),
                              before.vlans.begin() + before.vlan_count));
    check(std::is_permutation(keys.labels.begin(), keys.labels.begin() + keys.label_count,
                              before.labels.begin(), before.labels.begin() + before.label_count));
}

void read_lines(std::string_view text, Layout layout, std::uint8_t choices) {
    while (!text.empty()) {
        const std::string_view line = take(text, '\n');
        try {
            const TsharkRow row = row_of(line, layout);
            check(stack_text(row).size() <= 64 * line.size() + 64);
            check_order(keys_of(row), choices);
        } catch (const TsharkOutputError&) {  // an invalid value for its column
        }
    }
}

void read_pipe(std::string_view text, Layout layout) {
    int ends[2];
    check(::pipe(ends) == 0);
    check(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    TsharkOutput reader(ends[0], layout);
    try {
        while (const TsharkRow* row = reader.next()) keys_of(*row);
    } catch (const TsharkOutputError&) {  // a row is missing
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const Layout layout = (data[0] & 1) != 0 ? Layout::kColumns : Layout::kFields;
    read_lines(text, layout, data[0] >> 1);
    if (text.size() <= kMaxInPipe && std::hash<std::string_view>()(text) % 64 == 0) read_pipe(text, layout);
    return 0;
}
