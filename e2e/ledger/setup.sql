-- The tables of the shop whose orders are charged, and of a provider that deduplicates.
CREATE TABLE orders (language text, number int, charge text);
CREATE TABLE provider_calls (downstream_key text);
CREATE TABLE provider_acts (downstream_key text PRIMARY KEY);
