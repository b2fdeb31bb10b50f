#include "columns/frame_columns.hpp"

#include <array>

#include "flow/tcp_state.hpp"
#include "frame/issue.hpp"

namespace acapella {

std::string_view text_of(L4By by) {
    constexpr std::array<std::string_view, 3> kTexts = {"native", "tshark", "unsure"};
    return kTexts[static_cast<std::size_t>(by)];
}

std::string_view text_of(AppBy by) {
    constexpr std::array<std::string_view, 4> kTexts = {"native", "tshark", "flow", ""};
    return kTexts[static_cast<std::size_t>(by)];
}

namespace {

// Columns that can be null, with their bits in a row's validity.
enum Valid : unsigned { kFlow, kTcp, kTcpAck, kPayload, kAppBy, kIssue, kTime, kIpId, kValidities };

// Uninitialized values of a column, so that a capture with few frames does not touch all pages of a batch.
template <typename T>
class BatchValues {
  public:
    explicit BatchValues(std::size_t capacity) : values_(std::make_unique_for_overwrite<T[]>(capacity)) {}
    T& operator[](std::size_t row) { return values_[row]; }
    const T* data() const { return values_.get(); }

  private:
    std::unique_ptr<T[]> values_;
};

struct Validity {
    std::vector<std::uint8_t> bits;
    std::int64_t nulls = 0;
    // Returns null if no value is null, as Arrow allows.
    const void* buffer() const { return nulls == 0 ? nullptr : bits.data(); }
};

}  // namespace

struct FrameColumns::Buffers {
    explicit Buffers(std::size_t capacity)
        : frame(capacity),
          ts_ns(capacity),
          wire_len(capacity),
          cap_len(capacity),
          inner_wire_len(capacity),
          protocols(capacity),
          stack(capacity),
          flow(capacity),
          tcp_flags(capacity),
          ip_id(capacity),
          tcp_seq(capacity),
          tcp_ack(capacity),
          payload_len(capacity),
          ip_len(capacity),
          l4_by(capacity),
          app_by(capacity),
          issue(capacity),
          row_validity(capacity) {}

    void clear() {
        size = 0;
        protocols_texts = stack_texts = l4_by_texts = app_by_texts = issue_texts = Strings();
    }

    std::size_t size = 0;
    BatchValues<std::uint64_t> frame;
    BatchValues<std::int64_t> ts_ns;
    BatchValues<std::uint32_t> wire_len, cap_len, inner_wire_len, protocols, stack, flow;
    BatchValues<std::uint16_t> tcp_flags, ip_id;
    BatchValues<std::uint32_t> tcp_seq, tcp_ack, payload_len, ip_len, l4_by, app_by, issue;
    RowValidity row_validity;
    std::array<Validity, kValidities> validity;
    Strings protocols_texts, stack_texts, l4_by_texts, app_by_texts, issue_texts;
};

struct FrameColumns::BufferPool {
    std::mutex mutex;
    std::vector<std::unique_ptr<Buffers>> buffers;
    bool closed = false;

    void put(std::unique_ptr<Buffers> used) {
        const std::lock_guard lock(mutex);
        if (!closed) buffers.push_back(std::move(used));
    }
    void close() {
        const std::lock_guard lock(mutex);
        closed = true;
        buffers.clear();
    }
    std::unique_ptr<Buffers> get(std::size_t capacity) {
        const std::lock_guard lock(mutex);
        if (buffers.empty()) return std::make_unique<Buffers>(capacity);
        auto recycled = std::move(buffers.back());
        buffers.pop_back();
        recycled->clear();
        return recycled;
    }
};

FrameColumns::FrameColumns(const HeaderStacks& header_stacks, std::size_t capacity)
    : header_stacks_(header_stacks), capacity_(capacity), pool_(std::make_shared<BufferPool>()) {}

FrameColumns::~FrameColumns() = default;

std::size_t FrameColumns::size() const { return current_ ? current_->size : 0; }

void FrameColumns::close() { pool_->close(); }

void FrameColumns::add(const FrameRow& row, std::uint32_t stack, std::uint32_t flow, L4By l4_by,
                       AppBy app_by) {
    if (!current_) current_ = pool_->get(capacity_);
    Buffers& b = *current_;
    const std::size_t i = b.size++;
    const bool tcp = row.has(FrameRow::kHasTcp);
    const bool ack = tcp && (row.tcp_flags & kAck) != 0;
    const bool payload = row.has(FrameRow::kHasPayloadLen);
    b.frame[i] = row.frame;
    b.ts_ns[i] = row.ts_ns;
    b.wire_len[i] = row.wire_len;
    b.cap_len[i] = row.cap_len;
    b.inner_wire_len[i] = row.inner_wire_len;
    b.protocols[i] = protocols_.local(header_stacks_.protocols_row(stack));
    b.stack[i] = stacks_.local(header_stacks_.stack_row(stack));
    b.flow[i] = flow == kNone ? 0 : flow;
    b.tcp_flags[i] = tcp ? row.tcp_flags : std::uint16_t{0};
    b.tcp_seq[i] = tcp ? row.tcp_seq : 0;
    b.tcp_ack[i] = ack ? row.tcp_ack : 0;
    b.payload_len[i] = payload ? row.payload_len : 0;
    b.ip_len[i] = flow == kNone ? 0 : row.ip_len;
    const bool has_ip_id = flow != kNone && row.has(FrameRow::kHasIpId);
    b.ip_id[i] = has_ip_id ? static_cast<std::uint16_t>(row.ip_id) : std::uint16_t{0};
    b.l4_by[i] = l4_by_.local(static_cast<std::uint32_t>(l4_by));
    const bool decided = app_by != AppBy::kUnidentified;
    b.app_by[i] = decided ? app_by_.local(static_cast<std::uint32_t>(app_by)) : 0;
    const bool timed = !row.has(FrameRow::kUntimed);
    const bool issue = row.issue != Issue::none;
    b.issue[i] = issue ? issues_.local(static_cast<std::uint32_t>(row.issue)) : 0;
    b.row_validity.set(i, static_cast<std::uint8_t>((flow != kNone) << kFlow | tcp << kTcp | ack << kTcpAck |
                                                    payload << kPayload | decided << kAppBy |
                                                    issue << kIssue | timed << kTime | has_ip_id << kIpId));
}

namespace {

template <typename T>
Column plain(const char* name, const char* format, std::size_t size, const BatchValues<T>& values,
             const Validity* valid = nullptr) {
    return {.name = name,
            .format = format,
            .nullable = valid != nullptr,
            .length = static_cast<std::int64_t>(size),
            .null_count = valid ? valid->nulls : 0,
            .buffers = {valid ? valid->buffer() : nullptr, values.data()}};
}

template <typename TextOf>
void add_texts(Strings& texts, LocalDictionary& dictionary, const TextOf& text_of_row) {
    for (const std::uint32_t row : dictionary.rows()) texts.add(text_of_row(row));
    dictionary.clear();
}

Column dictionary(const char* name, std::size_t size, const BatchValues<std::uint32_t>& indices,
                  const Strings& texts, const Validity* valid) {
    Column column = plain(name, "I", size, indices, valid);
    column.dictionary = std::make_unique<Column>(texts.column("", true));
    return column;
}

}  // namespace

Batch FrameColumns::take() {
    std::unique_ptr<Buffers> filled = current_ ? std::move(current_) : pool_->get(capacity_);
    Buffers& b = *filled;
    for (unsigned bit = 0; bit < kValidities; ++bit)
        b.validity[bit].nulls = b.row_validity.pack(b.size, bit, b.validity[bit].bits);
    add_texts(b.protocols_texts, protocols_,
              [&](std::uint32_t row) { return header_stacks_.protocols()[row]; });
    add_texts(b.stack_texts, stacks_, [&](std::uint32_t row) { return header_stacks_.stacks()[row]; });
    add_texts(b.l4_by_texts, l4_by_, [](std::uint32_t row) { return text_of(static_cast<L4By>(row)); });
    add_texts(b.app_by_texts, app_by_, [](std::uint32_t row) { return text_of(static_cast<AppBy>(row)); });
    add_texts(b.issue_texts, issues_, [](std::uint32_t row) { return text_of(static_cast<Issue>(row)); });
    Column table{
        .name = "", .format = "+s", .length = static_cast<std::int64_t>(b.size), .buffers = {nullptr}};
    auto& columns = table.children;
    columns.push_back(plain("frame", "L", b.size, b.frame));
    columns.push_back(plain("ts_ns", "l", b.size, b.ts_ns, &b.validity[kTime]));
    columns.push_back(plain("wire_len", "I", b.size, b.wire_len));
    columns.push_back(plain("cap_len", "I", b.size, b.cap_len));
    columns.push_back(plain("inner_wire_len", "I", b.size, b.inner_wire_len));
    columns.push_back(dictionary("protocols", b.size, b.protocols, b.protocols_texts, nullptr));
    columns.push_back(dictionary("stack", b.size, b.stack, b.stack_texts, nullptr));
    columns.push_back(plain("flow", "I", b.size, b.flow, &b.validity[kFlow]));
    columns.push_back(plain("tcp_flags", "S", b.size, b.tcp_flags, &b.validity[kTcp]));
    columns.push_back(plain("tcp_seq", "I", b.size, b.tcp_seq, &b.validity[kTcp]));
    columns.push_back(plain("tcp_ack", "I", b.size, b.tcp_ack, &b.validity[kTcpAck]));
    columns.push_back(plain("payload_len", "I", b.size, b.payload_len, &b.validity[kPayload]));
    columns.push_back(plain("ip_len", "I", b.size, b.ip_len, &b.validity[kFlow]));
    columns.push_back(plain("ip_id", "S", b.size, b.ip_id, &b.validity[kIpId]));
    columns.push_back(dictionary("l4_by", b.size, b.l4_by, b.l4_by_texts, nullptr));
    columns.push_back(dictionary("app_by", b.size, b.app_by, b.app_by_texts, &b.validity[kAppBy]));
    columns.push_back(dictionary("issue", b.size, b.issue, b.issue_texts, &b.validity[kIssue]));
    std::shared_ptr<const void> owner(filled.release(), [free = pool_](const Buffers* used) {
        free->put(std::unique_ptr<Buffers>(const_cast<Buffers*>(used)));
    });
    return {std::move(table), std::move(owner)};
}

}  // namespace acapella
