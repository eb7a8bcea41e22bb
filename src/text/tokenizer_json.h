/* tokenizer_json.h: the names of a bundle's tokenizer files and what writer and reader of them share.
 *
 *  1. tokenizer.json has Hugging Face's shape: added_tokens [{id, content, special, ...}], normalizer (null
 * or NFC), pre_tokenizer (Digits, Split, ByteLevel, alone or in a Sequence), post_processor (null, or bos
 *     before the text), decoder ByteLevel, model {type BPE, vocab {text: id}, merges ["left right", ...]}.
 *  2. Control tokens are added_tokens with special true, user-defined ones with special false; all are in
 *     model.vocab too, where their ids are fixed.
 *  3. tokenizer_config.json has bos_token, eos_token, unk_token, pad_token (texts or null), add_bos_token,
 *     chat_template, and two keys of ours: spillway_pre (the pre-tokenizer's name in GGUF) and
 *     spillway_end_ids (ids that end a text, beside eos). */
#ifndef SW_TEXT_TOKENIZER_JSON_H
#define SW_TEXT_TOKENIZER_JSON_H

#define SW_TOKENIZER_JSON        "tokenizer.json"
#define SW_TOKENIZER_CONFIG_JSON "tokenizer_config.json"

#endif
