// Columns of one page while they grow, and their hand-over as an Arrow array.

#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "json_text.hpp"

// The Arrow C data interface, as its specification writes it.
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
extern "C" struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif

namespace fleetlake {

enum class Kind : uint8_t { id, integer, relation, real, flag, text, time, timeuuid, json };

// Returns the whole number in these digits, if they are few and written plainly.
inline bool whole_of(std::string_view digits, int64_t& value) {
  const bool is_negative = !digits.empty() && digits.front() == '-';
  if (is_negative) digits.remove_prefix(1);
  if (digits.empty() || digits.size() > kMaxWholeDigits) return false;
  if (digits.front() == '0' && (digits.size() > 1 || is_negative)) return false;
  value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return false;
    value = value * 10 + (digit - '0');
  }
  if (is_negative) value = -value;
  return true;
}

// Returns the microseconds since 1970 of `YYYY-MM-DDTHH:MM:SS[.ffffff](Z|+HH:MM)`.
inline bool instant_of(std::string_view text, int64_t& microseconds) {
  const auto two = [&](size_t at, int most) {
    const int tens = text[at] - '0', ones = text[at + 1] - '0';
    const bool is_number = tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9;
    return is_number && tens * 10 + ones <= most ? tens * 10 + ones : -1;
  };
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':')
    return false;
  const int century = two(0, 99), of_century = two(2, 99), month = two(5, 12), day = two(8, 31),
            hour = two(11, 23), minute = two(14, 59), second = two(17, 59);
  if ((century | of_century | month | day | hour | minute | second) < 0) return false;
  const int year = century * 100 + of_century;
  // Python's own limits are the years 1 and 9999, after the zone is applied.
  if (year < 2 || year > 9998 || month == 0 || day == 0) return false;
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (day > kDays[month - 1] + (month == 2 && is_leap)) return false;
  size_t at = 19;
  int64_t fraction = 0;
  if (text[at] == '.') {
    int64_t scale = 1'000'000;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      if (scale == 1) return false;
      scale /= 10;
      fraction += (text[at] - '0') * scale;
    }
    if (scale == 1'000'000 || at == text.size()) return false;
  }
  int offset = 0;
  if (text[at] == 'Z') {
    if (at + 1 != text.size()) return false;
  } else {
    if (text.size() != at + 6 || (text[at] != '+' && text[at] != '-') || text[at + 3] != ':')
      return false;
    const int hours = two(at + 1, 23), minutes = two(at + 4, 59);
    if ((hours | minutes) < 0) return false;
    offset = (hours * 60 + minutes) * (text[at] == '-' ? -1 : 1);
  }
  // Days since 1970 of a civil date, by whole eras of 400 years that begin in March.
  const int shifted = year - (month <= 2), era = shifted / 400, of_era = shifted - era * 400;
  const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t days = int64_t{era} * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
                       719468;
  microseconds =
      ((days * 24 + hour) * 60 + minute - offset) * 60'000'000 + second * 1'000'000 + fraction;
  return true;
}

// Returns whether a text is a version-1 UUID in lower case.
inline bool is_timeuuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    const bool is_hyphen = at == 8 || at == 13 || at == 18 || at == 23;
    if (is_hyphen ? byte != '-' : !((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f')))
      return false;
  }
  return text[14] == '1' && (text[19] == '8' || text[19] == '9' || text[19] == 'a' ||
                             text[19] == 'b');
}

// The values of one column. It keeps its memory from page to page.
class Column {
 public:
  Column(Kind kind, bool is_required) : kind_(kind), is_required_(is_required) {}

  void clear() {
    content_.clear();
    valid_.clear();
    ends_.clear();
    nulls_ = 0;
  }

  bool append_null() {
    if (is_required_) return false;
    ++nulls_;
    valid_.push_back(0);
    switch (kind_) {
      case Kind::text:
      case Kind::timeuuid:
      case Kind::json:
        end_text();
        break;
      case Kind::flag:
        content_.push_back(0);
        break;
      default:
        put(int64_t{0});
    }
    return true;
  }

  // Takes the next value of a page. Returns false for any that the Python reader must judge.
  bool append(JsonText& json) {
    if (kind_ == Kind::json) {
      std::string_view raw;
      if (!json.take_raw(raw)) return false;
      if (raw == "null") return append_null();
      append_text(raw);
      return true;
    }
    if (json.peek() == 'n') return json.take_null() && append_null();
    if (!append_value(json)) return false;
    valid_.push_back(1);
    return true;
  }

  void append_text(std::string_view text) {
    content_.insert(content_.end(), text.begin(), text.end());
    end_text();
    valid_.push_back(1);
  }

  // A text in parts: append to `content`, then call `end_value`.
  std::vector<char>& content() { return content_; }
  void end_value() {
    end_text();
    valid_.push_back(1);
  }

  bool is_text() const {
    return kind_ == Kind::text || kind_ == Kind::timeuuid || kind_ == Kind::json;
  }
  int64_t nulls() const { return nulls_; }
  size_t rows() const { return valid_.size(); }

  size_t validity_bytes() const { return nulls_ ? (rows() + 7) / 8 : 0; }
  size_t content_bytes() const {
    return kind_ == Kind::flag ? (rows() + 7) / 8 : content_.size();
  }
  size_t offset_bytes() const { return is_text() ? (rows() + 1) * sizeof(int32_t) : 0; }

  void write_validity(char* to) const { write_bits(valid_, to); }
  void write_offsets(char* to) const {
    const int32_t first = 0;
    std::memcpy(to, &first, sizeof first);
    if (rows()) std::memcpy(to + sizeof first, ends_.data(), rows() * sizeof(int32_t));
  }
  void write_content(char* to) const {
    if (kind_ == Kind::flag)
      write_bits(content_, to);
    else if (!content_.empty())
      std::memcpy(to, content_.data(), content_.size());
  }

 private:
  bool append_value(JsonText& json) {
    std::string_view text;
    int64_t whole;
    switch (kind_) {
      case Kind::id:
      case Kind::integer:
      case Kind::relation:
        if (!take_whole(json, whole)) return false;
        put(whole);
        return true;
      case Kind::real:
        return append_real(json);
      case Kind::flag: {
        bool flag;
        if (!json.take_flag(flag)) return false;
        content_.push_back(flag ? 1 : 0);
        return true;
      }
      case Kind::time:
        if (!json.take_plain_string(text) || !instant_of(text, whole)) return false;
        put(whole);
        return true;
      case Kind::timeuuid:
        if (!json.take_plain_string(text) || !is_timeuuid(text)) return false;
        content_.insert(content_.end(), text.begin(), text.end());
        end_text();
        return true;
      default:
        if (!json.append_string(content_)) return false;
        end_text();
        return true;
    }
  }

  bool take_whole(JsonText& json, int64_t& value) const {
    std::string_view text;
    bool is_whole = true;
    if (json.peek() != '"') return json.take_number(text, is_whole) && is_whole && whole_of(text, value);
    if (!json.take_plain_string(text)) return false;
    if (kind_ == Kind::relation) {
      const auto last = text.find_last_not_of('/');
      if (last == std::string_view::npos) return false;
      text = text.substr(0, last + 1);
      text = text.substr(text.rfind('/') + 1);  // npos + 1 is 0
    }
    return whole_of(text, value);
  }

  bool append_real(JsonText& json) {
    constexpr size_t kMostCharacters = 24;  // the longest that any double needs
    std::string_view text;
    bool is_whole;
    double value;
    if (!json.take_number(text, is_whole) || text.size() > kMostCharacters) return false;
    const auto end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc{} || read.ptr != end) return false;
    put(value);
    return true;
  }

  template <typename Value>
  void put(Value value) {
    const auto at = content_.size();
    content_.resize(at + sizeof value);
    std::memcpy(content_.data() + at, &value, sizeof value);
  }

  void end_text() { ends_.push_back(static_cast<int32_t>(content_.size())); }

  static void write_bits(const std::vector<char>& bytes, char* to) {
    std::memset(to, 0, (bytes.size() + 7) / 8);
    for (size_t at = 0; at < bytes.size(); ++at)
      to[at / 8] = static_cast<char>(to[at / 8] | (bytes[at] ? 1 << at % 8 : 0));
  }

  Kind kind_;
  bool is_required_;
  std::vector<char> content_;
  std::vector<char> valid_;  // a byte a row, for now
  std::vector<int32_t> ends_;
  int64_t nulls_ = 0;
};

// Returns the columns as one Arrow struct array, in a single block of memory that its `release`
// frees. Raises: std::bad_alloc.
ArrowArray* array_of(const std::vector<Column>& columns);

}  // namespace fleetlake
