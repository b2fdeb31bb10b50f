// Compares the components of a comparison with simple implementations: spilled columns, quantiles, matching,
// and matching with files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <vector>

#include "kappa/compare.hpp"
#include "kappa/components/deltas.hpp"
#include "kappa/components/quantiles.hpp"
#include "kappa/matching.hpp"
#include "kappa/partition.hpp"
#include "kappa/spool.hpp"

namespace {

using namespace acapella::kappa;

const std::string kDirectory = std::filesystem::temp_directory_path();

// Columns

TEST(Spool, ColumnReturnsItsValuesFromMemoryAndFile) {
    constexpr std::size_t kValues = 3 * SpillColumn<std::uint64_t>::kChunk + 17;
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{300} << 10, std::uint64_t{600} << 10, std::uint64_t{1} << 30}) {
        MemoryBudget budget(bytes, kDirectory);
        {
            SpillColumn<std::uint64_t> column(budget);
            for (std::uint64_t i = 0; i < kValues; ++i) column.push(i * i);
            ASSERT_EQ(column.size(), kValues);
            EXPECT_EQ(column.in_memory(), bytes == std::uint64_t{1} << 30);
            std::uint64_t next = 0;
            column.for_each_chunk([&next](std::span<const std::uint64_t> chunk) {
                for (const std::uint64_t value : chunk) {
                    ASSERT_EQ(value, next * next);
                    ++next;
                }
            });
            EXPECT_EQ(next, kValues);
            for (const std::size_t first : {std::size_t{0}, kValues / 2, kValues - 5}) {
                std::vector<std::uint64_t> values(5);
                column.read(first, values);
                for (std::size_t i = 0; i < values.size(); ++i)
                    EXPECT_EQ(values[i], (first + i) * (first + i));
            }
        }
        EXPECT_EQ(budget.left(), bytes) << "a column releases the memory it took";
    }
}

TEST(Spool, FileReturnsItsContentAndHasNoName) {
    std::string directory = kDirectory + "/acapella-spool-XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    SpoolFile file(directory);
    const std::vector<std::byte> first(5000, std::byte{1});
    const std::vector<std::byte> second(7, std::byte{2});
    EXPECT_EQ(file.append(first), 0U);
    EXPECT_EQ(file.append(second), 5000U);
    EXPECT_EQ(file.size(), 5007U);
    std::vector<std::byte> read(9);
    file.read(4998, read);
    EXPECT_EQ(read[1], std::byte{1});
    EXPECT_EQ(read[2], std::byte{2});
    EXPECT_THROW(file.read(5000, read), SpoolError);
    EXPECT_TRUE(std::filesystem::is_empty(directory));
    std::filesystem::remove(directory);
    EXPECT_THROW(SpoolFile{directory}, SpoolError);
}

// Quantiles

TEST(Quantiles, BinsAreInOrderAndContainTheirValues) {
    std::mt19937_64 random(1);
    for (std::size_t bin = 0; bin + 1 < Bins::kCount; ++bin)
        ASSERT_EQ(Bins::first(bin) + Bins::width_less_one(bin) + 1, Bins::first(bin + 1));
    for (int round = 0; round < 10'000; ++round) {
        const std::uint64_t value = random() >> random() % 64;
        const std::size_t bin = Bins::of(value);
        ASSERT_LE(Bins::first(bin), value);
        ASSERT_LE(value - Bins::first(bin), Bins::width_less_one(bin));
    }
    EXPECT_EQ(Bins::of(~std::uint64_t{0}), Bins::kCount - 1);
}

std::vector<std::int64_t> drawn(std::mt19937_64& random, std::size_t count, int shape) {
    std::vector<std::int64_t> values(count);
    for (std::int64_t& value : values) {
        const auto number = static_cast<std::int64_t>(random());
        value = shape == 0   ? number % 10
                : shape == 1 ? number >> random() % 64
                             : 1'000'000'007 + number % 3'000'000;
    }
    return values;
}

std::uint64_t nearest(std::vector<std::uint64_t> values, std::uint64_t percent) {
    std::sort(values.begin(), values.end());
    return values[(values.size() * percent + 99) / 100 - 1];
}

// In the third shape, one bin contains more values than are gathered at once.
TEST(Quantiles, MatchSortedDifferences) {
    std::mt19937_64 random(2);
    for (const std::size_t count : {1U, 2U, 3U, 99U, 100U, 101U, 5000U, 300'000U}) {
        for (int shape = 0; shape < 3; ++shape) {
            const std::vector<std::int64_t> values = drawn(random, count, shape);
            MemoryBudget budget(count % 2 ? 0 : std::uint64_t{1} << 30, kDirectory);
            DeltaSums sums(budget, {3, 1000});
            std::vector<std::uint64_t> absolute;
            Sum128 sum = 0;
            for (const std::int64_t value : values) {
                sums.add(value);
                absolute.push_back(magnitude(value));
                sum += absolute.back();
            }
            const Deltas deltas = sums.finish();
            ASSERT_EQ(deltas.median, nearest(absolute, 50)) << count << " of shape " << shape;
            ASSERT_EQ(deltas.p99, nearest(absolute, 99));
            ASSERT_EQ(deltas.largest, *std::max_element(absolute.begin(), absolute.end()));
            ASSERT_TRUE(deltas.sum == sum);
            for (const std::uint64_t bound : {3U, 1000U}) {
                const auto within = std::count_if(absolute.begin(), absolute.end(),
                                                  [bound](std::uint64_t value) { return value <= bound; });
                ASSERT_EQ(sums.within()[bound == 3 ? 0 : 1], static_cast<std::uint64_t>(within));
            }
            std::vector<std::int64_t> sorted(values);
            std::sort(sorted.begin(), sorted.end());
            const std::int64_t median = sorted[(count + 1) / 2 - 1];
            ASSERT_EQ(sums.signed_median(), median);
            // Differences of any two timestamps fit in 64 bits, but not the differences of two of these
            // differences.
            if (shape == 1) continue;
            std::vector<std::uint64_t> centered;
            for (const std::int64_t value : values) centered.push_back(magnitude(value - median));
            const Deltas around = sums.around(median);
            ASSERT_EQ(around.median, nearest(centered, 50));
            ASSERT_EQ(around.p99, nearest(centered, 99));
        }
    }
}

// Differences are stored in 32 bits if they fit, otherwise in 64; both columns are used together around any
// center.
TEST(Quantiles, NarrowAndWideDifferencesAreCombined) {
    constexpr std::int64_t kEdge = std::int64_t{1} << 31;
    const std::vector<std::int64_t> values{-kEdge - 1, -kEdge,       -kEdge + 1, -7,        0,
                                           3,          kEdge - 1,    kEdge,      kEdge + 1, -3'000'000'000,
                                           5 * kEdge,  8 * kEdge + 5};
    for (const std::int64_t center : {std::int64_t{0}, std::int64_t{3}, kEdge, -kEdge - 1, 5 * kEdge}) {
        MemoryBudget budget(1 << 20, kDirectory);
        DeltaSums sums(budget, {10});
        std::vector<std::uint64_t> centered;
        Sum128 sum = 0;
        SignedSum128 signed_sum = 0;
        for (const std::int64_t value : values) {
            sums.add(value);
            centered.push_back(magnitude(value - center));
            sum += centered.back();
            signed_sum += value - center;
        }
        const Deltas around = sums.around(center);
        EXPECT_TRUE(around.sum == sum) << center;
        EXPECT_TRUE(around.signed_sum == signed_sum) << center;
        EXPECT_EQ(around.largest, *std::max_element(centered.begin(), centered.end())) << center;
        EXPECT_EQ(around.median, nearest(centered, 50)) << center;
        EXPECT_EQ(around.p99, nearest(centered, 99)) << center;
        std::vector<std::int64_t> sorted(values);
        std::sort(sorted.begin(), sorted.end());
        EXPECT_EQ(sums.signed_median(), sorted[(sorted.size() + 1) / 2 - 1]);
    }
}

TEST(Quantiles, HistogramBinsBeginAtFifthsOfADecade) {
    const auto starts = LogHistogram::starts();
    for (std::size_t bin = 0; bin < starts.size(); ++bin) {
        EXPECT_EQ(LogHistogram::bin_of(starts[bin]), bin);
        if (bin > 0) EXPECT_EQ(LogHistogram::bin_of(starts[bin] - 1), bin - 1);
    }
    EXPECT_EQ(LogHistogram::bin_of(~std::uint64_t{0}), starts.size() - 1);
}

// Matching

struct Matched {
    std::vector<std::uint32_t> matches;
    Ambiguous ambiguous;
};

Matched match_plainly(const std::vector<Identity>& a, const std::vector<Identity>& b) {
    std::map<Identity, std::vector<std::uint32_t>> in_a;
    std::map<Identity, std::size_t> in_b;
    for (std::uint32_t i = 0; i < a.size(); ++i) in_a[a[i]].push_back(i);
    Matched result;
    for (const Identity& identity : b) {
        const auto& positions = in_a[identity];
        const std::size_t occurrence = in_b[identity]++;
        result.matches.push_back(occurrence < positions.size() ? positions[occurrence] : kUnmatched);
    }
    for (const auto& [identity, packets] : in_a)
        result.ambiguous.a += packets.size() > 1 ? packets.size() : 0;
    for (const auto& [identity, packets] : in_b) result.ambiguous.b += packets > 1 ? packets : 0;
    return result;
}

// Many identities share the bits that select the slot, or all bits that an entry stores.
std::vector<Identity> identities(std::mt19937& random, std::size_t count, unsigned kinds, int shape) {
    std::vector<Identity> result;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t kind = random() % kinds;
        if (shape == 0) result.push_back({kind * 0x9e3779b97f4a7c15, kind * 0xbf58476d1ce4e5b9});
        if (shape == 1) result.push_back({kind, 7});
        if (shape == 2) result.push_back({kind << 40, 7});
    }
    return result;
}

TEST(Matching, MatchesTheDefinition) {
    std::mt19937 random(3);
    for (int round = 0; round < 600; ++round) {
        const unsigned kinds = 1 + random() % 80;
        const auto a = identities(random, random() % 60, kinds, round % 3);
        const auto b = identities(random, random() % 60, kinds, round % 3);
        std::vector<std::uint32_t> matches(b.size());
        const Ambiguous ambiguous = match(a, b, matches);
        const Matched expected = match_plainly(a, b);
        ASSERT_EQ(matches, expected.matches);
        ASSERT_EQ(ambiguous.a, expected.ambiguous.a);
        ASSERT_EQ(ambiguous.b, expected.ambiguous.b);
    }
}

// Partition

Trial trial_of(MemoryBudget& budget, std::mt19937& random, std::size_t count, unsigned kinds, int shape) {
    Trial trial(budget);
    trial.files.emplace_back();
    std::int64_t ts_ns = 1'000;
    for (const Identity& identity : identities(random, count, kinds, shape)) {
        trial.identities.push(identity);
        trial.timestamps.push(ts_ns += random() % 50);
    }
    finish_trial(trial, budget);
    return trial;
}

void expect_same_matches(const Trial& a, const Trial& b, std::uint64_t memory_bytes) {
    std::vector<Identity> of_a(a.size());
    std::vector<Identity> of_b(b.size());
    a.identities.read(0, of_a);
    b.identities.read(0, of_b);
    const Matched expected = match_plainly(of_a, of_b);
    const PartitionedMatch found(a, b, memory_bytes, kDirectory);
    EXPECT_EQ(found.ambiguous().a, expected.ambiguous.a);
    EXPECT_EQ(found.ambiguous().b, expected.ambiguous.b);
    std::size_t packet = 0;
    found.for_each_of_b([&](const Match& match, const PacketTime&) {
        ASSERT_EQ(match.packet_a, expected.matches[packet++]);
        if (match.packet_a != kUnmatched) ASSERT_TRUE(found.common().has(match.packet_a));
    });
    EXPECT_EQ(packet, b.size());
}

TEST(Partition, MatchesInMemoryMatching) {
    std::mt19937 random(4);
    MemoryBudget no_memory(0, kDirectory);
    for (const std::size_t count : {0U, 1U, 40U, 3000U}) {
        for (const std::uint64_t memory_bytes : {std::uint64_t{1}, std::uint64_t{1} << 16}) {
            const Trial a = trial_of(no_memory, random, count, 2000, 0);
            const Trial b = trial_of(no_memory, random, count + 3, 2000, 0);
            expect_same_matches(a, b, memory_bytes);
        }
    }
}

// Equal identities, and others with the same leading bits, do not fit in a part of 64 KiB, which holds 512
// packets.
TEST(Partition, EqualAndSimilarIdentitiesAreMatchedInParts) {
    std::mt19937 random(6);
    MemoryBudget no_memory(0, kDirectory);
    for (int shape = 0; shape < 3; ++shape) {
        for (const auto& [kinds_a, kinds_b] :
             {std::pair{1U, 1U}, {1U, 3U}, {3U, 1U}, {2U, 2000U}, {2000U, 2U}, {2000U, 2000U}}) {
            const Trial a = trial_of(no_memory, random, 3000, kinds_a, shape);
            const Trial b = trial_of(no_memory, random, 2500, kinds_b, shape);
            expect_same_matches(a, b, 1);
            expect_same_matches(b, a, 1);
        }
    }
    Trial other(no_memory);
    other.files.emplace_back();
    for (int i = 0; i < 3000; ++i) {
        other.identities.push({~std::uint64_t{0}, 1});
        other.timestamps.push(i);
    }
    finish_trial(other, no_memory);
    expect_same_matches(trial_of(no_memory, random, 3000, 1, 0), other,
                        1);  // two identities, one on each side
    expect_same_matches(trial_of(no_memory, random, 0, 1, 0), other, 1);
    expect_same_matches(other, trial_of(no_memory, random, 0, 1, 0), 1);
}

// Trials with packets out of order are sorted stably, in memory and with files.
TEST(Partition, SortingWithFilesIsStable) {
    std::mt19937 random(5);
    std::vector<std::pair<std::int64_t, std::uint64_t>> packets;
    for (std::uint64_t i = 0; i < 30'000; ++i) packets.emplace_back(random() % 5000, i);
    auto expected = packets;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
        MemoryBudget budget(bytes, kDirectory);
        Trial trial(budget);
        trial.files.emplace_back();
        for (const auto& [ts_ns, number] : packets) {
            trial.timestamps.push(ts_ns);
            trial.identities.push({number, number});
        }
        finish_trial(trial, budget);
        std::vector<Identity> sorted(packets.size());
        trial.identities.read(0, sorted);
        for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i].low, expected[i].second);
    }
}

}  // namespace
