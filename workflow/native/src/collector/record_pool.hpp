// Flow records that one thread writes and any other reads meanwhile, without either waiting for the other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "collector/flow_state.hpp"

namespace acapella::collector {

struct FlowCopy {
    ReportKey key;
    FlowState state;
};

// A sequence lock a record: a reader that meets a writer reads again (Boehm, "Can seqlocks get along with
// programming language memory models?", 2012). Keys never change. Growth moves nothing.
class RecordPool {
  public:
    RecordPool() : blocks_(std::make_unique<std::atomic<Record*>[]>(kBlocks)) {}
    RecordPool(const RecordPool&) = delete;
    RecordPool& operator=(const RecordPool&) = delete;
    ~RecordPool() {
        for (std::size_t i = 0; i < kBlocks; ++i) delete[] blocks_[i].load();
    }

    static constexpr std::uint32_t kMost = std::uint32_t{1} << 30;
    static constexpr std::size_t record_bytes() { return sizeof(Record); }

    // Any thread.
    std::uint32_t size() const { return size_.load(std::memory_order_acquire); }
    FlowCopy copy(std::uint32_t row) const;

    // The writing thread.
    std::uint32_t add(const ReportKey& key, const FlowState& state);
    void store(std::uint32_t row, const FlowState& state);
    const ReportKey& key(std::uint32_t row) const { return at(row).key; }
    FlowState state(std::uint32_t row) const { return load(at(row)); }
    void prefetch(std::uint32_t row) const {
        const char* record = reinterpret_cast<const char*>(&at(row));
        for (std::size_t line = 0; line < sizeof(Record); line += 64) __builtin_prefetch(record + line);
    }

  private:
    struct Record {
        ReportKey key;
        std::array<std::atomic<std::uint64_t>, std::tuple_size_v<FlowState::Words>> words;
        std::atomic<std::uint64_t> version;  // odd while it is written
    };
    static constexpr std::uint32_t kShift = 12;
    static constexpr std::uint32_t kMask = (std::uint32_t{1} << kShift) - 1;
    static constexpr std::size_t kBlocks = kMost >> kShift;

    Record& at(std::uint32_t row) const {
        return blocks_[row >> kShift].load(std::memory_order_relaxed)[row & kMask];
    }
    static FlowState load(const Record& record) {
        FlowState::Words words;
        for (std::size_t i = 0; i < words.size(); ++i)
            words[i] = record.words[i].load(std::memory_order_relaxed);
        return std::bit_cast<FlowState>(words);
    }
    static void save(Record& record, const FlowState& state) {
        const auto words = std::bit_cast<FlowState::Words>(state);
        for (std::size_t i = 0; i < words.size(); ++i)
            record.words[i].store(words[i], std::memory_order_relaxed);
    }

    std::unique_ptr<std::atomic<Record*>[]> blocks_;
    std::atomic<std::uint32_t> size_{0};
};

inline std::uint32_t RecordPool::add(const ReportKey& key, const FlowState& state) {
    const std::uint32_t row = size_.load(std::memory_order_relaxed);
    if ((row & kMask) == 0) {
        if (row >= kMost) throw std::bad_alloc();
        blocks_[row >> kShift].store(new Record[kMask + 1], std::memory_order_release);
    }
    Record& record = at(row);
    record.key = key;
    record.version.store(0, std::memory_order_relaxed);
    save(record, state);
    size_.store(row + 1, std::memory_order_release);
    return row;
}

inline void RecordPool::store(std::uint32_t row, const FlowState& state) {
    Record& record = at(row);
    const std::uint64_t version = record.version.load(std::memory_order_relaxed);
    record.version.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    save(record, state);
    record.version.store(version + 2, std::memory_order_release);
}

inline FlowCopy RecordPool::copy(std::uint32_t row) const {
    const Record& record = at(row);
    for (;;) {
        const std::uint64_t before = record.version.load(std::memory_order_acquire);
        const FlowState state = load(record);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (before % 2 == 0 && before == record.version.load(std::memory_order_relaxed))
            return {record.key, state};
    }
}

}  // namespace acapella::collector
