// The page's start. Belongs here: the order in which its parts begin. Never: a part.

import * as checks from "./checks.js";
import * as explain from "./explain.js";
import * as head from "./head.js";
import * as i18n from "./i18n.js";
import * as keys from "./keys.js";
import * as loading from "./loading.js";
import * as side from "./side.js";
import * as stack from "./stack.js";
import * as theme from "./theme.js";
import * as tiles from "./tiles.js";

await i18n.start();
theme.followSystem();
head.start();
tiles.start();
stack.start();
side.start();
checks.start();
explain.start();
keys.start();
i18n.dress(document);
loading.start();
