// A number written by one thread and read by others: compiled to plain loads and stores, but without a data
// race in C++.
#pragma once

#include <atomic>

namespace acapella::collector {

template <typename T>
class RelaxedAtomic {
  public:
    RelaxedAtomic(T value = T{}) : value_(value) {}  // NOLINT(google-explicit-constructor): replaces a T
    RelaxedAtomic(const RelaxedAtomic& other) : value_(other.get()) {}
    RelaxedAtomic& operator=(const RelaxedAtomic& other) { return *this = other.get(); }
    RelaxedAtomic& operator=(T value) {
        value_.store(value, std::memory_order_relaxed);
        return *this;
    }

    T get() const { return value_.load(std::memory_order_relaxed); }
    operator T() const { return get(); }  // NOLINT(google-explicit-constructor)

    // For the writing thread only, so these operations need no lock.
    RelaxedAtomic& operator+=(T more) { return *this = static_cast<T>(get() + more); }
    RelaxedAtomic& operator|=(T bits) { return *this = static_cast<T>(get() | bits); }
    RelaxedAtomic& operator++() { return *this += T{1}; }

  private:
    std::atomic<T> value_;
    static_assert(std::atomic<T>::is_always_lock_free);
};

}  // namespace acapella::collector
