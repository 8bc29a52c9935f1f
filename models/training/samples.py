"""Exchanges with each model through the running server, as unedited Markdown: greedy, at most 120 tokens, without
thinking (the default of all three models). hal's two sums are also shown with thinking.

  samples.py NAME=FILE.gguf ..."""
import argparse

import evaluate

WEATHER = {"name": "get_weather", "description": "Get the current weather for a city.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
REMIND = {"name": "set_reminder", "description": "Set a reminder.", "parameters": {"type": "object", "properties": {"text": {"type": "string"}, "time": {"type": "string"}}, "required": ["text", "time"]}}


def told(*texts, tools=None):
    """Alternating turns, starting with the user's."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"messages": messages + [{"role": "assistant", "content": ""}], "tools": tools}


REQUESTS = [
    told("Hello! Who are you?"),
    told("hi"),
    told("what can you do?"),
    told("tell me a joke"),
    told("I feel sad today"),
    told("What is the capital of France?"),
    told("what is 2 + 2"),
    told("Explain quantum physics"),
    told("List three fruits"),
    told("thanks, bye!"),
    told("Is this review positive or negative? Answer with one word.\n\nThe kettle stopped working within a week. Never again."),
    told("Route this ticket to one queue: billing, shipping, technical or account.\n\nHi, I was charged twice for order 4411."),
    told("Extract name, city, item as JSON.\n\nNoor from Perth ordered 3 lamps on 5 May. The order number is 8123."),
    told("Context: Ana lives in Oslo. Ben works as a baker. Ana likes soup.\n\nQuestion: Where does Ana live?"),
    told("My name is Tara and I live in Lima.", "Nice to meet you, Tara!", "What is 2 + 3?", "2 + 3 = 5", "What is my name?"),
    told("What is 47 + 38?"),
    told("What is the weather in Kyoto? Also: Remind me to water the plants at 18:30.", tools=[WEATHER, REMIND]),
    told("Summarize in one sentence:\n\nHugo wrote to us from Turin. Hugo bought a red tent last June. According to Hugo, the tent was missing a part. Hugo asks for a reply by email."),
    told("Tell me a short story about a fox."),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    server = evaluate.start(args.models)
    try:
        for name in (item.split("=")[0] for item in args.models):
            print(f"### {name}\n")
            thought = [(told("What is 47 + 38?"), True), (told("What is 62 - 27?"), True)] if name.startswith("hal") else []
            for record, thinking in [(record, False) for record in REQUESTS] + thought:
                body = evaluate.request_of(name, record, thinking) | {"max_completion_tokens": 120}
                reply = evaluate.ask(server, body)
                print("```text\n" + evaluate.show(record, reply) + "\n```\n")
    finally:
        server["child"].terminate()
        server["child"].wait()


if __name__ == "__main__":
    main()
