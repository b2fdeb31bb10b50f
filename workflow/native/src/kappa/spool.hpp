// Columns of plain values that are kept in memory up to a limit, and written to temporary files beyond it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace acapella::kappa {

// A temporary file could not be created, written or read. what() is one line. `number` is errno after a
// failed system call.
class SpoolError : public std::runtime_error {
  public:
    SpoolError(const std::string& text, int number) : std::runtime_error(text), number_(number) {}

    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

// Memory pages, which grow without being copied once there is a huge page.
class Pages {
  public:
    Pages() = default;
    Pages(Pages&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
    Pages& operator=(Pages&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~Pages();

    // The kernel allocates and clears a huge page at once.
    static constexpr std::size_t kHugePage = std::size_t{2} << 20;

    // Throws std::bad_alloc. The content is kept; new memory is zero.
    void grow(std::size_t bytes);
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t capacity() const { return capacity_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t capacity_ = 0;
};

// A temporary file that only this user can read. It has no name, or its name is removed at once, so it is
// always deleted. Throws SpoolError.
class SpoolFile {
  public:
    explicit SpoolFile(const std::string& directory);
    SpoolFile(SpoolFile&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)), size_(std::exchange(other.size_, 0)) {}
    SpoolFile& operator=(SpoolFile&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~SpoolFile();

    // Appends bytes and returns their offset.
    std::uint64_t append(std::span<const std::byte> bytes);
    void read(std::uint64_t offset, std::span<std::byte> into) const;
    [[nodiscard]] std::uint64_t size() const { return size_; }

  private:
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
};

// Memory limit shared by several columns.
class MemoryBudget {
  public:
    MemoryBudget(std::uint64_t bytes, std::string directory)
        : total_(bytes), left_(bytes), directory_(std::move(directory)) {}

    [[nodiscard]] bool take(std::uint64_t bytes) {
        if (bytes > left_) return false;
        left_ -= bytes;
        return true;
    }
    void give_back(std::uint64_t bytes) { left_ += bytes; }
    [[nodiscard]] std::uint64_t total() const { return total_; }
    [[nodiscard]] std::uint64_t left() const { return left_; }
    [[nodiscard]] const std::string& directory() const { return directory_; }

  private:
    std::uint64_t total_;
    std::uint64_t left_;
    std::string directory_;
};

// A column of values, which are appended and then read as often as needed.
template <typename Value>
class SpillColumn {
  public:
    explicit SpillColumn(MemoryBudget& budget) : budget_(&budget) {}
    SpillColumn(SpillColumn&& other) noexcept
        : budget_(other.budget_),
          pages_(std::move(other.pages_)),
          count_(std::exchange(other.count_, 0)),
          room_(std::exchange(other.room_, 0)),
          spilled_(std::exchange(other.spilled_, 0)),
          taken_(std::exchange(other.taken_, 0)),
          files_(std::move(other.files_)) {}
    SpillColumn& operator=(SpillColumn&&) = delete;
    void swap(SpillColumn& other) noexcept {
        std::swap(budget_, other.budget_);
        std::swap(pages_, other.pages_);
        std::swap(count_, other.count_);
        std::swap(room_, other.room_);
        std::swap(spilled_, other.spilled_);
        std::swap(taken_, other.taken_);
        std::swap(files_, other.files_);
    }
    ~SpillColumn() { budget_->give_back(taken_); }

    void push(const Value& value) {
        if (count_ == room_) make_room();
        values()[count_++] = value;
    }

    [[nodiscard]] std::size_t size() const { return spilled_ + count_; }
    [[nodiscard]] bool in_memory() const { return files_.empty(); }
    // Returns all values if they are in memory.
    [[nodiscard]] std::span<const Value> span() const { return {values(), count_}; }
    [[nodiscard]] std::span<Value> span() { return {values(), count_}; }

    // Calls visit(std::span<const Value>) for all values in order.
    template <typename Visit>
    void for_each_chunk(const Visit& visit) const {
        if (spilled_ > 0) {
            std::vector<Value> chunk(std::min(spilled_, kChunk));
            for (std::size_t at = 0; at < spilled_;) {
                const std::size_t count = std::min(spilled_ - at, kChunk);
                read(at, std::span(chunk).first(count));
                visit(std::span<const Value>(chunk).first(count));
                at += count;
            }
        }
        if (count_ > 0) visit(span());
    }

    // Reads existing values starting at `first`, from the file or from memory.
    void read(std::size_t first, std::span<Value> into) const {
        const std::size_t from_file = first < spilled_ ? std::min(into.size(), spilled_ - first) : 0;
        if (from_file > 0)
            files_.front().read(first * sizeof(Value), std::as_writable_bytes(into.first(from_file)));
        for (std::size_t i = from_file; i < into.size(); ++i) into[i] = values()[first + i - spilled_];
    }

    static constexpr std::size_t kChunk = (std::size_t{256} << 10) / sizeof(Value);

  private:
    Value* values() { return reinterpret_cast<Value*>(pages_.data()); }
    const Value* values() const { return reinterpret_cast<const Value*>(pages_.data()); }

    void make_room() {
        // The second allocation is a huge page, which is cheaper than growing in small steps.
        const std::size_t min_bytes = pages_.capacity() == 0 ? kChunk * sizeof(Value) : Pages::kHugePage;
        const std::size_t bytes = std::max<std::size_t>(pages_.capacity() * 2, min_bytes);
        const std::size_t added = bytes - pages_.capacity();
        if (files_.empty() && budget_->take(added)) {
            taken_ += added;
            pages_.grow(bytes);
            room_ = pages_.capacity() / sizeof(Value);
            return;
        }
        if (files_.empty()) files_.emplace_back(budget_->directory());
        files_.front().append(std::as_bytes(std::span<const Value>(values(), count_)));
        spilled_ += std::exchange(count_, 0);
        keep_one_chunk();
    }

    void keep_one_chunk() {
        if (room_ == kChunk) return;
        pages_ = Pages();
        pages_.grow(kChunk * sizeof(Value));
        room_ = kChunk;
        budget_->give_back(std::exchange(taken_, 0));
    }

    MemoryBudget* budget_;
    Pages pages_;
    std::size_t count_ = 0;  // number of values in memory
    std::size_t room_ = 0;
    std::size_t spilled_ = 0;  // number of values in the file, before those in memory
    std::uint64_t taken_ = 0;
    std::vector<SpoolFile> files_;  // none or one
};

}  // namespace acapella::kappa
