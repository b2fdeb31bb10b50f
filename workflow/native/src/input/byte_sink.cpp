#include "input/byte_sink.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace acapella::input {
namespace {

constexpr std::size_t kFlushAt = std::size_t{256} << 10;

// Keeps a write to a pipe without reader from ending the process: SIGPIPE is held back, and taken off again
// if the write raised it.
class NoSigpipe {
  public:
    NoSigpipe() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    NoSigpipe(const NoSigpipe&) = delete;
    NoSigpipe& operator=(const NoSigpipe&) = delete;

    ~NoSigpipe() {
        if (!was_pending_) {
            const timespec now{};
            while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

  private:
    sigset_t pipe_{};
    sigset_t before_{};
    bool was_pending_ = false;
};

// Waits until a non-blocking descriptor takes more; errno, or 0.
int wait_for_room(int descriptor, std::chrono::milliseconds timeout) {
    pollfd ready{descriptor, POLLOUT, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(timeout.count()));
    if (found == 0) {
        return ETIMEDOUT;
    }
    return found > 0 || errno == EINTR ? 0 : errno;
}

// Writes all; errno, or 0.
int write_all(int descriptor, const std::byte* from, std::size_t size, std::chrono::milliseconds timeout) {
    const NoSigpipe guard;
    while (size > 0) {
        const ssize_t done = ::write(descriptor, from, size);
        if (done < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN) {
                return errno;
            }
            if (const int fault = wait_for_room(descriptor, timeout); fault != 0) {
                return fault;
            }
            continue;
        }
        if (done == 0) {
            return EIO;
        }
        from += done;
        size -= static_cast<std::size_t>(done);
    }
    return 0;
}

}  // namespace

ByteSink::ByteSink(int descriptor, std::chrono::milliseconds timeout)
    : descriptor_(descriptor), timeout_(timeout) {
    buffer_.reserve(kFlushAt + (std::size_t{64} << 10));
}

void ByteSink::put(const void* from, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(from);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
}

bool ByteSink::flush_if_full() { return error_number_ == 0 && (buffer_.size() < kFlushAt || flush()); }

bool ByteSink::flush() {
    if (error_number_ == 0) {
        error_number_ = write_all(descriptor_, buffer_.data(), buffer_.size(), timeout_);
        buffer_.clear();
    }
    return error_number_ == 0;
}

std::string ByteSink::error() const { return error_number_ == 0 ? "" : std::strerror(error_number_); }

}  // namespace acapella::input
