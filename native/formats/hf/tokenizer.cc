#include "formats/hf/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "formats/gguf/parser.h"
#include "formats/gguf/tokenizer.h"
#include "formats/hf/base64.h"
#include "formats/hf/text_steps.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/tokenizer_spec.h"

namespace monolith::hf {
namespace {

constexpr int64_t kMaxVocabTokens = 1 << 22;

// The vocabulary under construction. IDs without a token are marked unused.
class Tokens {
 public:
  // Sets a token of the vocabulary or an added token. An added token may change the kind of an existing ID but not its
  // text.
  Status set(int64_t id, std::string text, TokenKind kind, const JsonValue& from) {
    if (id < 0 || id >= kMaxVocabTokens) return from.invalid("gives a token the id " + std::to_string(id));
    const size_t i = static_cast<size_t>(id);
    if (i >= texts_.size()) {
      texts_.resize(i + 1);
      kinds_.resize(i + 1, TokenKind::kUnused);
      claimed_.resize(i + 1);
    }
    if (claimed_[i] && texts_[i] != text)
      return from.invalid("gives the id " + std::to_string(id) + " to " + in_quotes(texts_[i]) + " and to " +
                          in_quotes(text));
    claimed_[i] = true;
    texts_[i] = std::move(text);
    kinds_[i] = kind;
    return {};
  }
  void fill_up_to(size_t n) {
    texts_.resize(n);
    kinds_.resize(n, TokenKind::kUnused);
    claimed_.resize(n);
  }
  size_t size() const { return texts_.size(); }
  // Returns the ID of a token text, or -1 if there is none. This is a linear search, so use it sparingly.
  int64_t find(std::string_view text) const {
    if (text.empty()) return -1;
    const auto found = std::ranges::find(texts_, text);
    return found == texts_.end() ? -1 : found - texts_.begin();
  }
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<TokenKind>& kinds() const { return kinds_; }

 private:
  std::vector<std::string> texts_;
  std::vector<TokenKind> kinds_;
  std::vector<bool> claimed_;
};

// Whether an added token that is not marked "special" must be treated as special because of its name.
bool looks_special(std::string_view text) {
  return (text.starts_with("<|") && text.ends_with("|>")) || (text.starts_with("<｜") && text.ends_with("｜>")) ||
         text == "<start_of_turn>" || text == "<end_of_turn>";
}

bool is_byte_spelling(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && is_hex(text[3]) && is_hex(text[4]);
}

class TokenizerReader {
 public:
  explicit TokenizerReader(const TokenizerFiles& files) : files_(files), model_(files.tokenizer["model"]) {}

  // On success, spec() describes the tokenizer. The returned description points into this object.
  Status run(int64_t rows) {
    if (files_.ranks != nullptr) {
      if (Status status = read_ranks(*files_.ranks); !status) return status;
    } else {
      for (const auto step :
           {&TokenizerReader::read_steps, &TokenizerReader::read_vocabulary, &TokenizerReader::read_added})
        if (Status status = (this->*step)(); !status) return status;
    }
    if (static_cast<int64_t>(tokens_.size()) > rows)
      return model_.invalid("has " + std::to_string(tokens_.size()) + " tokens, but the embedding table has only " +
                            std::to_string(rows) + " rows");
    tokens_.fill_up_to(static_cast<size_t>(rows));
    if (unigram_) scores_.resize(tokens_.size());
    for (const auto step : {&TokenizerReader::read_ids, &TokenizerReader::read_template, &TokenizerReader::describe})
      if (Status status = (this->*step)(); !status) return status;
    return {};
  }
  const TokenizerSpec& spec() const { return spec_; }

 private:
  // Follows tokenization_kimi.py: uses its regular expression, matches whole words before applying merges, and appends
  // the tokens that the settings list after the ranked tokens.
  Status read_ranks(const RankedTokens& ranks) {
    const JsonValue code = files_.settings["auto_map"]["AutoTokenizer"];
    const std::string_view by = code.is_array() && !code.items().empty() ? code.item(0).text() : code.text();
    if (!by.starts_with("tokenization_kimi."))
      return files_.settings["auto_map"].unsupported(
          "names " + in_quotes(by) +
          " together with a tiktoken.model, which is only supported for Kimi (tokenization_kimi)");
    steps_.byte_level = true;
    steps_.stages = {std::string(split_stage_name(SplitStage::kKimi))};
    ignores_merges_ = true;
    merges_ = ranks.merges;
    for (size_t rank = 0; rank < ranks.texts.size(); ++rank)
      if (Status status =
              tokens_.set(static_cast<int64_t>(rank), ranks.texts[rank], TokenKind::kNormal, files_.settings);
          !status)
        return status;
    const JsonValue added = files_.settings["added_tokens_decoder"];
    if (added.exists() && !added.is_object()) return added.invalid("is not an object");
    for (const auto& [number, id_value] : added.members()) {
      const JsonValue token = added.at(id_value, number);
      int64_t id = -1;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
      const auto content = token["content"].string();
      if (!content) return content.error();
      if (error != std::errc() || end != number.data() + number.size() || !*content || (*content)->empty())
        return token.invalid("must have an id and content");
      auto special = token["special"].boolean();
      if (!special) return special.error();
      const TokenKind kind =
          special->value_or(false) || looks_special(**content) ? TokenKind::kControl : TokenKind::kUserDefined;
      if (Status status = tokens_.set(id, **content, kind, token); !status) return status;
    }
    return {};
  }

  Status read_steps() {
    const std::string_view type = model_["type"].text();
    unigram_ = type == "Unigram";
    word_piece_ = type == "WordPiece";
    if (word_piece_) return read_word_steps();
    const bool bpe = type == "BPE" || (type.empty() && model_["merges"].is_array());
    if (!unigram_ && !bpe)
      return model_["type"].unsupported("is " + in_quotes(type) + " (known: BPE, Unigram, WordPiece)");
    auto steps = read_text_steps(files_.tokenizer);
    if (!steps) return steps.error();
    steps_ = std::move(*steps);
    if (unigram_ && steps_.byte_level)
      return files_.tokenizer["pre_tokenizer"].unsupported("is ByteLevel with Unigram");
    return {};
  }

  // WordPiece: BERT's normalizer and pre-tokenizer.
  Status read_word_steps() {
    const JsonValue normalizer = files_.tokenizer["normalizer"], splitting = files_.tokenizer["pre_tokenizer"];
    if (const std::string_view type = normalizer["type"].text(); type != "BertNormalizer")
      return normalizer["type"].unsupported("is " + in_quotes(type) + " with WordPiece, expected 'BertNormalizer'");
    if (const std::string_view type = splitting["type"].text(); type != "BertPreTokenizer")
      return splitting["type"].unsupported("is " + in_quotes(type) + " with WordPiece, expected 'BertPreTokenizer'");
    for (const auto& [name, option] : {std::pair{"clean_text", &TokenizerSpec::clean_text},
                                       {"handle_chinese_chars", &TokenizerSpec::split_chinese},
                                       {"strip_accents", &TokenizerSpec::strip_accents},
                                       {"lowercase", &TokenizerSpec::lowercase}}) {
      auto value = normalizer[name].boolean();
      if (!value) return value.error();
      spec_.*option = *value;
    }
    auto longest = model_["max_input_chars_per_word"].integer(0, kMaxVocabTokens);
    if (!longest) return longest.error();
    spec_.max_word_chars = static_cast<uint64_t>(longest->value_or(100));
    return {};
  }

  // In a WordPiece vocabulary, tokens that continue a word start with a prefix. In GGUF, the other tokens start with
  // "▁". Special tokens have no prefix in either form.
  Status read_words() {
    const JsonValue vocabulary = model_["vocab"];
    if (!vocabulary.is_object()) return vocabulary.invalid("is not an object");
    const JsonValue stated = model_["continuing_subword_prefix"];
    const std::string_view prefix = stated.exists() ? stated.text() : "##";
    if (prefix.empty()) return stated.unsupported("is empty");
    unknown_text_ = model_["unk_token"].text();
    const JsonValue added = files_.tokenizer["added_tokens"];
    if (unknown_text_.empty() || !vocabulary[unknown_text_].exists())
      return model_["unk_token"].unsupported("is missing or not in the vocabulary: unknown words would be lost");
    std::set<std::string_view> special{unknown_text_};
    for (size_t i = 0; i < added.items().size(); ++i) special.insert(added.item(i)["content"].text());
    for (const auto& [text, id_value] : vocabulary.members()) {
      const auto id =
          JsonValue(vocabulary.document(), id_value, "tokenizer.json", "model.vocab").integer(0, kMaxVocabTokens);
      if (!id) return id.error();
      if (!*id) return vocabulary.invalid("contains a token without an id");
      const std::string_view written = text;
      std::string token(written);
      if (!special.contains(written))
        token = written.size() > prefix.size() && written.starts_with(prefix)
                    ? std::string(written.substr(prefix.size()))
                    : "▁" + token;
      if (Status status = tokens_.set(**id, std::move(token), TokenKind::kNormal, vocabulary); !status) return status;
    }
    return {};
  }

  Status read_vocabulary() {
    if (word_piece_) return read_words();
    auto fallback = model_["byte_fallback"].boolean();
    if (!fallback) return fallback.error();
    for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model_[name].text().empty()) return model_[name].unsupported("is not supported here");
    if (auto dropout = model_["dropout"].number(); !dropout)
      return dropout.error();
    else if (dropout->value_or(0) != 0)
      return model_["dropout"].unsupported("is not 0: random merges are not supported");
    auto fuse = model_["fuse_unk"].boolean();
    if (!fuse) return fuse.error();
    fuses_unknown_ = fuse->value_or(false);
    const bool bytes = fallback->value_or(false);
    if (!unigram_ && !bytes && !steps_.byte_level && model_["unk_token"].text().empty())
      return model_["unk_token"].unsupported(
          "is missing: without it, byte_fallback or ByteLevel, unknown characters would be lost");
    const auto kind_of = [bytes](std::string_view text) {
      return bytes && is_byte_spelling(text) ? TokenKind::kByte : TokenKind::kNormal;
    };
    const JsonValue vocabulary = model_["vocab"];
    if (unigram_) return read_pieces(vocabulary, kind_of);
    if (!vocabulary.is_object()) return vocabulary.invalid("is not an object");
    for (const auto& [text, id_value] : vocabulary.members()) {
      // Errors name the vocabulary rather than the token, because a token's text can be anything.
      const auto id =
          JsonValue(vocabulary.document(), id_value, "tokenizer.json", "model.vocab").integer(0, kMaxVocabTokens);
      if (!id) return id.error();
      if (!*id) return vocabulary.invalid("contains a token without an id");
      if (Status status = tokens_.set(**id, text, kind_of(text), vocabulary); !status) return status;
    }
    return read_merges();
  }

  template <typename KindOf>
  Status read_pieces(const JsonValue& vocabulary, KindOf kind_of) {
    if (!vocabulary.is_array()) return vocabulary.invalid("is not an array");
    for (size_t i = 0; i < vocabulary.items().size(); ++i) {
      const JsonValue piece = vocabulary.item(i);
      if (piece.items().size() != 2 || !piece.item(0).is_string())
        return piece.invalid("is not a pair of text and score");
      auto score = piece.item(1).number();
      if (!score) return score.error();
      const std::string text(piece.item(0).text());
      if (Status status = tokens_.set(static_cast<int64_t>(i), text, kind_of(text), piece); !status) return status;
      scores_.push_back(static_cast<float>(score->value_or(0)));
    }
    auto unknown = model_["unk_id"].integer(0, kMaxVocabTokens);
    if (!unknown) return unknown.error();
    if (*unknown) unknown_ = **unknown;
    if (unknown_ >= static_cast<int64_t>(tokens_.size())) return model_["unk_id"].invalid("is beyond the vocabulary");
    return {};
  }

  // A merge is a string "left right" or, since 2024, a pair.
  Status read_merges() {
    const JsonValue merges = model_["merges"];
    if (!merges.is_array()) return merges.invalid("is not an array");
    for (size_t i = 0; i < merges.items().size(); ++i) {
      const JsonValue merge = merges.item(i);
      if (merge.is_string()) {
        merges_.emplace_back(merge.text());
        continue;
      }
      if (merge.items().size() != 2 || !merge.item(0).is_string() || !merge.item(1).is_string())
        return merge.invalid("is neither a string nor a pair of strings");
      const std::string_view left = merge.item(0).text(), right = merge.item(1).text();
      if (left.find(' ') != std::string_view::npos || right.find(' ') != std::string_view::npos)
        return merge.unsupported("merges texts that contain spaces");
      merges_.push_back(std::string(left) + " " + std::string(right));
    }
    unknown_text_ = model_["unk_token"].text();
    return {};
  }

  Status read_added() {
    const JsonValue added = files_.tokenizer["added_tokens"];
    if (added.exists() && !added.is_array()) return added.invalid("is not an array");
    for (size_t i = 0; i < added.items().size(); ++i) {
      const JsonValue token = added.item(i);
      auto id = token["id"].integer(0, kMaxVocabTokens);
      if (!id) return id.error();
      auto content = token["content"].string();
      if (!content) return content.error();
      if (!*id || !*content || (*content)->empty()) return token.invalid("must have an id and content");
      auto special = token["special"].boolean(), before = token["lstrip"].boolean(), behind = token["rstrip"].boolean(),
           normalized = token["normalized"].boolean(), whole_word = token["single_word"].boolean();
      for (const auto* flag : {&special, &before, &behind, &normalized, &whole_word})
        if (!*flag) return flag->error();
      if (whole_word->value_or(false)) return token["single_word"].unsupported("is true, which is not supported here");
      const std::string& text = **content;
      if (before->value_or(false)) spec_.strip_before_ids.push_back(**id);
      if (behind->value_or(false)) spec_.strip_behind_ids.push_back(**id);
      // Returns true for an added token that is also a vocabulary token and can result from merges. Such a token
      // decodes to spaces, not to "▁".
      const bool piece = text.find("▁") != std::string::npos && !steps_.byte_level && !special->value_or(false) &&
                         **id < static_cast<int64_t>(tokens_.size());
      // Special tokens come from chat templates and are matched in the unnormalized text.
      if (word_piece_ && !special->value_or(false) && normalized->value_or(true) && !looks_special(text))
        return token["normalized"].unsupported("is true, which is not supported here with WordPiece");
      const bool in_normalized = steps_.normalizes && normalized->value_or(!special->value_or(false)) &&
                                 !special->value_or(false) && !looks_special(text);
      if (in_normalized) {
        if (unigram_ && (!steps_.charsmap.empty() || steps_.space_prefix || steps_.collapses_spaces))
          return token["normalized"].unsupported("is true, which is not supported here with the normalizer");
        spec_.normalized_token_ids.push_back(**id);
      } else if (piece) {
        spec_.raw_token_ids.push_back(**id);
      }
      const TokenKind kind = piece                                             ? TokenKind::kNormal
                             : special->value_or(false) || looks_special(text) ? TokenKind::kControl
                                                                               : TokenKind::kUserDefined;
      if (Status status = tokens_.set(**id, text, kind, token); !status) return status;
    }
    return {};
  }

  // Returns the ID of a special token that the settings specify as a string or as an object that contains its text.
  int64_t id_of_setting(std::string_view name) const {
    const JsonValue value = files_.settings[name];
    return tokens_.find(value.is_object() ? value["content"].text() : value.text());
  }

  Status add_end(const JsonValue& value) {
    auto id = value.integer(0, kMaxVocabTokens);
    if (!id) return id.error();
    if (*id && **id >= static_cast<int64_t>(tokens_.size())) return value.invalid("is beyond the vocabulary");
    if (*id) spec_.end_token_ids.push_back(**id);
    return {};
  }

  Status read_ids() {
    bos_ = id_of_setting("bos_token");
    eos_ = id_of_setting("eos_token");
    for (const JsonValue& source : {files_.config, files_.generation}) {
      const JsonValue ends = source["eos_token_id"];
      if (ends.is_array()) {
        for (size_t i = 0; i < ends.items().size(); ++i)
          if (Status status = add_end(ends.item(i)); !status) return status;
      } else if (Status status = add_end(ends); !status) {
        return status;
      }
    }
    if (eos_ < 0 && !spec_.end_token_ids.empty()) eos_ = spec_.end_token_ids.front();
    if (bos_ < 0 && !files_.settings.exists()) {
      auto id = files_.config["bos_token_id"].integer(0, static_cast<int64_t>(tokens_.size()) - 1);
      if (!id) return id.error();
      bos_ = id->value_or(-1);
    }
    if (unknown_ < 0) unknown_ = tokens_.find(unknown_text_);
    return {};
  }

  // Reads whether BOS is added before a text, and EOS after it.
  Status read_template() {
    auto add_bos = files_.settings["add_bos_token"].boolean(), add_eos = files_.settings["add_eos_token"].boolean();
    for (const auto* flag : {&add_bos, &add_eos})
      if (!*flag) return flag->error();
    add_bos_ = add_bos->value_or(false) && bos_ >= 0;
    add_eos_ = add_eos->value_or(false) && eos_ >= 0;
    const JsonValue processor = files_.tokenizer["post_processor"];
    if (processor["processors"].is_array()) {
      for (size_t i = 0; i < processor["processors"].items().size(); ++i)
        if (Status status = read_processor(processor["processors"].item(i)); !status) return status;
      return {};
    }
    return read_processor(processor);
  }

  Status read_processor(const JsonValue& processor) {
    const std::string_view type = processor["type"].text();
    if (!processor.exists() || type == "ByteLevel") return {};
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      bos_ = tokens_.find(processor["cls"].item(0).text());
      eos_ = tokens_.find(processor["sep"].item(0).text());
      for (const auto& [name, id] : {std::pair{"cls", bos_}, {"sep", eos_}})
        if (id < 0) return processor[name].invalid("is not a pair of a token and its id");
      add_bos_ = add_eos_ = true;
      return {};
    }
    if (type != "TemplateProcessing") return processor["type"].unsupported("is " + in_quotes(type));
    add_bos_ = add_eos_ = false;
    const JsonValue parts = processor["single"];
    if (!parts.is_array()) return parts.invalid("is not an array");
    bool after_text = false;
    for (size_t i = 0; i < parts.items().size(); ++i) {
      const JsonValue special = parts.item(i)["SpecialToken"];
      if (!special.exists()) {
        after_text = true;
        continue;
      }
      const int64_t id = tokens_.find(special["id"].text());
      bool& once = after_text ? add_eos_ : add_bos_;
      if (id < 0 || once) return parts.unsupported("adds more than one token before or after a text");
      once = true;
      (after_text ? eos_ : bos_) = id;
    }
    return {};
  }

  Status describe() {
    const bool byte_level = steps_.byte_level;
    spec_.model = word_piece_ ? "bert" : unigram_ ? "t5" : byte_level ? "gpt2" : "llama";
    spec_.tokens.emplace(tokens_.texts().begin(), tokens_.texts().end());
    spec_.kinds = tokens_.kinds();
    if (unknown_ >= 0 && !byte_level) {
      TokenKind& kind = (*spec_.kinds)[static_cast<size_t>(unknown_)];
      if (kind != TokenKind::kByte) kind = TokenKind::kUnknown;
    }
    spec_.explicit_ids = spec_.leftmost_tokens = true;
    for (const auto& [role, id] :
         {std::pair{TokenRole::kBos, bos_}, {TokenRole::kEos, eos_}, {TokenRole::kUnknown, unknown_}})
      if (id >= 0) spec_.id_of(role) = static_cast<uint64_t>(id);
    spec_.add_bos_token = add_bos_;
    spec_.add_eos_token = add_eos_;
    if (word_piece_) return {};
    if (steps_.normal_form != NormalForm::kNone) spec_.normal_form = normal_form_name(steps_.normal_form);
    if (unigram_)
      spec_.scores = std::move(scores_);
    else
      spec_.merges.emplace(merges_.begin(), merges_.end());
    auto ignores = model_["ignore_merges"].boolean();
    if (!ignores) return ignores.error();
    if (!byte_level && ignores->value_or(false))
      return model_["ignore_merges"].unsupported("is true without ByteLevel");
    if (byte_level) {
      spec_.split_stages.emplace(steps_.stages.begin(), steps_.stages.end());
      spec_.ignore_merges = ignores->value_or(ignores_merges_);
      return {};
    }
    spec_.add_space_prefix = steps_.space_prefix;
    spec_.space_prefix_once = steps_.prefix_once;
    spec_.space_prefix_spared = steps_.prefix_spared;
    spec_.remove_extra_whitespaces = steps_.splits_whitespace;
    if (steps_.collapses_spaces) spec_.collapse_spaces = true;
    spec_.words_apart = steps_.words_apart;
    spec_.fuse_unknown = fuses_unknown_;
    if (files_.tokenizer["decoder"].exists()) spec_.strip_first_space = steps_.strips_first_space;
    if (!steps_.charsmap.empty() && !decode_base64(steps_.charsmap, charsmap_))
      return files_.tokenizer["normalizer"].invalid("contains a charsmap that is not valid base64");
    spec_.charsmap = charsmap_;
    return {};
  }

  TokenizerFiles files_;
  JsonValue model_;
  TokenizerSpec spec_;
  bool unigram_ = false, word_piece_ = false, add_bos_ = false, add_eos_ = false, ignores_merges_ = false,
       fuses_unknown_ = false;
  TextSteps steps_;
  Tokens tokens_;
  std::vector<float> scores_;
  std::vector<std::string> merges_;
  std::string unknown_text_;
  int64_t bos_ = -1, eos_ = -1, unknown_ = -1;
  std::vector<std::byte> charsmap_;
};

}  // namespace

Status translate_tokenizer(const TokenizerFiles& files, int64_t rows, AssembledFile& file) {
  TokenizerReader reader(files);
  if (Status status = reader.run(rows); !status) return status;
  // The token after a text also separates the texts of a pair.
  if (const auto& eos = reader.spec().id_of(TokenRole::kEos); eos && reader.spec().add_eos_token.value_or(false))
    file.integer(kSeparatorKey, *eos);
  write_tokenizer_spec(reader.spec(), file);
  return {};
}

}  // namespace monolith::hf
