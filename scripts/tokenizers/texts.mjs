// Deterministic texts of many kinds and in many scripts, for comparing tokenizers.

const SENTENCES = [
  'All human beings are born free and equal in dignity and rights.',
  "I'll say it's what we've done; they'd've, you're, HE'LL, DON'T, I'M 42 and o'clock's.",
  'Alle Menschen sind frei und gleich an Würde und Rechten geboren. Straße, Äpfel, Öl, Übermut.',
  'Tous les êtres humains naissent libres et égaux en dignité et en droits. À bientôt, cœur, façade.',
  'Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Mañana? ¡Sí!',
  'Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Źdźbło, łódź.',
  'Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Příliš žluťoučký kůň.',
  'Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.',
  'Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul, ığdır.',
  'Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Árvíztűrő tükörfúrógép.',
  'Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. ᾧ ἀνὴρ ὕδωρ.',
  'Все люди рождаются свободными и равными в своем достоинстве и правах. Ещё йод, їжак, ўсё.',
  'כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. בְּרֵאשִׁית בָּרָא אֱלֹהִים',
  'يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ',
  'تمام انسان‌ها آزاد به دنیا می‌آیند و از دید حیثیت و حقوق با هم برابرند. ۱۲۳۴۵',
  'सभी मनुष्यों को गौरव और अधिकारों के विषय में जन्मजात स्वतन्त्रता और समानता प्राप्त है। क़लम ज़रूर फ़ोन १२३',
  'সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। কো কৌ ড় ঢ় য় ১২৩',
  'ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ, ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ ਦੇ ਪੱਖੋਂ ਜਨਮ ਤੋਂ ਹੀ ਆਜ਼ਾਦ ਹੈ। ਖ਼ ਫ਼',
  'பிறப்பில் மக்கள் எல்லோரும் சுதந்திரமானவர்கள்; கொடு கோவில் கௌரவம் மதிப்பிலும் உரிமைகளிலும் சமம்.',
  'ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಹುಟ್ಟಿದ್ದಾರೆ. ಕೊಡು ಕೋಟಿ ಕೀಲಿ ಕೇಳು ಘನತೆ ಮತ್ತು ಹಕ್ಕುಗಳಲ್ಲಿ ಸಮಾನರು.',
  'ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును. కై గై',
  'മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും സ്വാതന്ത്ര്യത്തോടുംകൂടി ജനിച്ചവരാണ്‌. കൊ കോ കൌ',
  'සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ගරුත්වයෙන් හා අයිතිවාසිකම්වලින් සමාන වෙති. කේ කෝ කෞ',
  'มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ น้ำ ทำ ๑๒๓',
  'ມະນຸດທຸກຄົນເກີດມາມີສິດເສລີພາບ ແລະ ສະເໝີໜ້າກັນໃນທາງກຽດຕິສັກ ນໍ້າ ໝາ ໜູ',
  'လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။ ဦး ၁၂၃',
  'មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព ក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរនិងសិទ្ធិ ១២៣',
  'འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང་། གྷ ཌྷ ཱི ༡༢༣',
  'ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. ᲐᲑᲒ',
  'Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։ և',
  'የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው። ፩፪፫',
  '모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 값 닭 ㄱㅏㅁ 가ᄀ',
  'すべての人間は、生まれながらにして自由であり、尊厳と権利について平等である。ガギグゲゴ ﾊﾟﾋﾟ ㍿ ㌔',
  '人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。臺灣「國語」㈱ Ⅷ ①②③ ５０％ 神 精',
  '我有3个苹果和12345.67元，iPhone15Pro很贵！！！「你好」——他说。',
  'naïve café résumé ﬁnance ﬂow ½ ¾ x² H₂O ™ ® № ℡ Å Å Ω Ω K K ſ ẞ ǆ ŉ … ‥ ″ ⁴⁵',
];

const SNIPPETS = [
  'def f(x: int = 0) -> str:\n    """Doc."""\n    return f"{x!r:>10}"  # noqa\n\n\nclass A(B):\n\tpass\n',
  'for (let i = 0; i < n; i++) { if (a[i] !== b[i]) return -1; }\r\n// done\r\n',
  '#include <stdio.h>\nint main(void) { printf("%d\\n", 0x7fff_ffff); return 0; }\n',
  '{"a": [1, 2.50, -3e10], "b": {"c": null, "d": "\\u00e9\\n"}}',
  '<div class="x-y" id=\'z\'>&nbsp;<br/></div><!-- c -->',
  "SELECT * FROM t WHERE a_b = 'it''s' AND c >= 1000000; -- 10.5%",
  '| a | b |\n|---|---|\n| 1 | 2 |\n\n- [ ] one\n- [x] two\n\n```sh\n$ ls -la ~/.ssh/*.pub | xargs\n```',
  'https://example.org/a/b.html?q=1&r=%20x#top user@example.com 192.168.0.1:8080 C:\\Users\\x',
  '\\frac{a}{b} \\sum_{i=1}^{n} x_i^2 \\leq \\infty $$ \\alpha \\to \\beta $$',
  'MyHTTPServer2Go someCamelCase SCREAMING_SNAKE kebab-case-name a1b2c3 XMLHttpRequest iOS17',
  '1 12 123 1234 12345 123456 1234567 12345678901234567890 3.14159 1,000,000 0x1F 1e-9 2024-02-29T23:59:59Z',
];

/** First and last code points of each range to choose characters from: letters and their combining marks. */
const BLOCKS = {
  ascii: [[0x20, 0x7e]],
  latin: [
    [0x41, 0x5a],
    [0x61, 0x7a],
    [0xc0, 0x24f],
  ],
  latinMarks: [
    [0x61, 0x7a],
    [0x300, 0x36f],
  ],
  latinMore: [[0x1e00, 0x1eff]],
  greek: [
    [0x370, 0x3ff],
    [0x1f00, 0x1fff],
  ],
  cyrillic: [[0x400, 0x52f]],
  armenian: [[0x531, 0x58a]],
  hebrew: [[0x591, 0x5f4]],
  arabic: [
    [0x600, 0x6ff],
    [0x750, 0x77f],
  ],
  syriac: [[0x700, 0x74f]],
  devanagari: [[0x900, 0x97f]],
  bengali: [[0x980, 0x9fe]],
  gurmukhi: [[0xa01, 0xa76]],
  gujarati: [[0xa81, 0xaff]],
  oriya: [[0xb01, 0xb77]],
  tamil: [[0xb82, 0xbfa]],
  telugu: [[0xc00, 0xc7f]],
  kannada: [[0xc80, 0xcf3]],
  malayalam: [[0xd00, 0xd7f]],
  sinhala: [[0xd81, 0xdf4]],
  thai: [[0xe01, 0xe5b]],
  lao: [[0xe81, 0xedf]],
  tibetan: [[0xf00, 0xfda]],
  burmese: [[0x1000, 0x109f]],
  georgian: [
    [0x10a0, 0x10ff],
    [0x1c90, 0x1cbf],
  ],
  jamo: [
    [0x1100, 0x11ff],
    [0x1161, 0x1175],
    [0x11a8, 0x11c2],
  ],
  ethiopic: [[0x1200, 0x137f]],
  cherokee: [[0x13a0, 0x13fd]],
  khmer: [[0x1780, 0x17f9]],
  mongolian: [[0x1800, 0x18aa]],
  punctuation: [
    [0x2010, 0x2027],
    [0x2030, 0x205e],
    [0x21, 0x2f],
    [0x3a, 0x40],
    [0x5b, 0x60],
  ],
  spaces: [
    [0x9, 0xd],
    [0x20, 0x20],
    [0x85, 0x85],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
  ],
  formats: [
    [0xad, 0xad],
    [0x200b, 0x200f],
    [0x202a, 0x202e],
    [0x2060, 0x206f],
    [0xfeff, 0xfeff],
    [0xfe00, 0xfe0f],
  ],
  symbols: [
    [0x20a0, 0x20c1],
    [0x2100, 0x214f],
    [0x2190, 0x23ff],
    [0x2500, 0x27bf],
    [0x2b00, 0x2bff],
  ],
  numbers: [
    [0x30, 0x39],
    [0xb2, 0xb3],
    [0xbc, 0xbe],
    [0x2070, 0x2089],
    [0x2150, 0x218b],
    [0x2460, 0x249b],
    [0x660, 0x669],
    [0x966, 0x96f],
  ],
  cjk: [[0x4e00, 0x9fff]],
  cjkMore: [
    [0x3400, 0x4dbf],
    [0x20000, 0x2a6df],
    [0xf900, 0xfaff],
  ],
  cjkMarks: [
    [0x3000, 0x303f],
    [0xff00, 0xffef],
    [0x3200, 0x33ff],
  ],
  kana: [[0x3041, 0x30ff]],
  hangul: [[0xac00, 0xd7a3]],
  presentation: [
    [0xfb00, 0xfb4f],
    [0xfb50, 0xfdff],
    [0xfe70, 0xfefc],
  ],
  math: [[0x1d400, 0x1d7ff]],
  music: [[0x1d100, 0x1d1ff]],
  controls: [
    [0, 0x1f],
    [0x7f, 0x9f],
  ],
  emoji: [
    [0x1f300, 0x1f64f],
    [0x1f680, 0x1f6ff],
    [0x1f900, 0x1f9ff],
    [0x1fa70, 0x1faff],
  ],
  newest: [
    [0x1fa89, 0x1fa8f],
    [0x1fabe, 0x1fac8],
    [0x1faea, 0x1fafc],
    [0x1f6d6, 0x1f6df],
    [0x1cc00, 0x1ccff],
  ],
  supplementary: [[0x10000, 0x1ffff]],
  unassigned: [
    [0x378, 0x379],
    [0x530, 0x530],
    [0xfdd0, 0xfdef],
    [0x2fe0, 0x2fef],
    [0x3ffff, 0x40010],
    [0xe0080, 0xe00ff],
  ],
  privateUse: [
    [0xe000, 0xf8ff],
    [0xf0000, 0xf0100],
  ],
  any: [
    [1, 0xd7ff],
    [0xe000, 0xffff],
    [0x10000, 0x10ffff],
  ],
};
const NAMES = Object.keys(BLOCKS);
const RUNS = [
  ' ',
  '\n',
  '\r\n',
  '\t',
  '\r',
  ' \n',
  '\n ',
  '\u00a0',
  '\u3000',
  '\u2581',
  '.',
  '-',
  '=',
  '*',
  '#',
  '!',
  '0',
  '9',
  'a',
  'A',
  '한',
  '的',
  '👍',
  '\u0301',
  '\u200d',
];
const EMOJI = ['👨‍👩‍👧‍👦', '🏳️‍🌈', '👍🏽', '🇺🇳', '1️⃣', '❤️', '🫩', '🫟', '🪉', '\u{1faea}', '\u{1f6d8}', '🧑🏿‍🚀'];
const FORMS = ['NFC', 'NFD', 'NFKC', 'NFKD'];

/** The seeded random generator for the texts, also used by tests. */
export function randomOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, pick: (list) => list[below(list.length)] };
}

function character(random, name) {
  const [first, last] = random.pick(BLOCKS[name]);
  const code = first + random.below(last - first + 1);
  return code >= 0xd800 && code <= 0xdfff ? 'x' : String.fromCodePoint(code);
}

const word = (random, name, most = 8) =>
  Array.from({ length: 1 + random.below(most) }, () => character(random, name)).join('');

/** Returns the text with index `at`, whose kind depends on the index. `added`: added tokens, spelled in some texts. */
function make(random, at, added) {
  const between = () => random.pick([' ', ' ', ' ', '', '\n', '  ', '. ', ', ', '\t']);
  const join = (count, part) => Array.from({ length: count }, part).join('');
  switch (at % 10) {
    case 0:
      return [random.pick(SENTENCES), random.pick(SENTENCES)].join(between());
    case 1:
      return [random.pick(SNIPPETS).slice(random.below(40)), random.pick(SNIPPETS)].join(between());
    case 2:
      return (
        random.pick(SENTENCES).slice(random.below(9)).normalize(random.pick(FORMS)) +
        between() +
        random.pick(SENTENCES).normalize(random.pick(FORMS))
      );
    case 3: {
      // words in one script
      const name = random.pick(NAMES);
      return join(1 + random.below(8), () => word(random, name) + between());
    }
    case 4:
      return join(1 + random.below(8), () => word(random, random.pick(NAMES)) + between());
    case 5:
      return join(
        1 + random.below(6),
        () =>
          random.pick(RUNS).repeat(1 + random.below(random.pick([2, 4, 9, 40]))) +
          random.pick(['', 'a', ' b', '1', random.pick(EMOJI)]),
      );
    case 6:
      return join(1 + random.below(12), () => character(random, random.pick(NAMES)));
    case 7:
      return join(
        1 + random.below(6),
        () =>
          random.pick([random.pick(EMOJI), word(random, 'newest', 2), word(random, 'unassigned', 2)]) +
          random.pick(['', ' ', ' ', 'a', '\n']),
      );
    case 8:
      return join(
        1 + random.below(5),
        () =>
          random
            .pick(SENTENCES)
            .split(' ')
            .slice(random.below(4), 2 + random.below(6))
            .join(' ') + between(),
      );
    default: // the spellings of added tokens, complete or truncated, within text
      return join(1 + random.below(6), () => {
        const spelling = added.length > 0 ? random.pick(added) : '<|x|>';
        return (
          random.pick([
            spelling,
            spelling,
            spelling.slice(random.below(spelling.length)),
            word(random, 'ascii', 4),
            word(random, random.pick(NAMES), 4),
            random.pick(SENTENCES).slice(0, 12),
          ]) + random.pick(['', '', ' ', '\n', '  '])
        );
      });
  }
}

/** `count` distinct strings without unpaired surrogates. */
export function texts(count, added = [], seed = 1) {
  const random = randomOf(seed);
  const found = new Set(['', ' ', '\n', 'a', ...SENTENCES, ...SNIPPETS, ...EMOJI]);
  for (let at = 0; found.size < count; at++) found.add(make(random, at, added).toWellFormed());
  return [...found].slice(0, count);
}
