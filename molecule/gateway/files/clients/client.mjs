// OpenAI's client for Node against the gateway: what it got, as one line of JSON. GATEWAY_URL, GATEWAY_KEY and LIMITED_KEY in the environment.
import OpenAI from "openai";

const client = (apiKey) => new OpenAI({ baseURL: process.env.GATEWAY_URL, apiKey, maxRetries: 0 });
const mine = client(process.env.GATEWAY_KEY);
const messages = [{ role: "user", content: "Hello" }];
const chat = { model: "tiny", messages, max_tokens: 3 };

const refusal = async (asking) => {
  try {
    await asking();
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code };
  }
};

const models = [];
for await (const model of mine.models.list()) models.push(model.id);
const words = [];
for await (const chunk of await mine.chat.completions.create({ ...chat, stream: true })) words.push(chunk.choices[0].delta.content);
const limited = client(process.env.LIMITED_KEY);
let overLimit = null;
for (let count = 0; count < 5 && !overLimit; count += 1) overLimit = await refusal(() => limited.chat.completions.create(chat));

console.log(
  JSON.stringify({
    models,
    chat: (await mine.chat.completions.create(chat)).choices[0].message.content,
    completion: (await mine.completions.create({ model: "other", prompt: "x", max_tokens: 2 })).choices[0].text,
    stream: words,
    wrong_key: await refusal(() => client("nobody".repeat(6)).models.list()),
    unknown_model: await refusal(() => mine.chat.completions.create({ ...chat, model: "nosuch" })),
    over_limit: overLimit,
  }),
);
