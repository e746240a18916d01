"""The written material of composed and augmented texts, in the spelling of the treebank.

A sign at the start is the label of the whole text. `SLOTS` lists the phrases for each slot of a frame.
"""

from __future__ import annotations

import re


def split_phrases(block: str) -> tuple[str, ...]:
    """Phrases separated by |, in any number of lines."""
    return tuple(" ".join(phrase.split()) for phrase in block.split("|"))


SUBJECTS = split_phrases("""
    it | this | the film | the movie | the story | the acting | the ending | the comedy | the script | the book | the
    novel | the album | the show | the play | the game | the meal | the soup | the bread | the service | the hotel | the
    room | the phone | the camera | the battery | the screen | the sound | the design | the waiter | the dessert | the
    plot | the dialogue | the music | the second season | the coffee | the crust | the sauce | the staff | the bed | the
    view | the keyboard | the strap | the fan | the app | the update | the cable | the speaker | the lens | the prose |
    the opening chapter | the cover | the narrator | the host | the garden | the shower | the price | the delivery | the
    packaging | the boots | the jacket | the singer | the guitar | the lyrics | the camera work | the costumes | the
    editing | the lead actor | the cast | the villain | the animation | the pacing | the documentary | the sequel
""")
POSITIVE = split_phrases("""
    good | great | funny | moving | clever | charming | brilliant | beautiful | gripping | original | delightful |
    superb | fresh | tasty | reliable | sturdy | comfortable | generous | friendly | crisp | delicious | elegant | witty
    | touching | exciting | memorable | convincing | intelligent | subtle | warm | tender | worth it | worth seeing |
    worth the money | easy to use | fast | well made | lovely | enjoyable | satisfying | inspired | wonderful |
    impressive | polished | perfect | engaging | alive
""")
NEGATIVE = split_phrases("""
    bad | dull | boring | slow | predictable | lazy | stale | cold | soggy | bland | greasy | overpriced | rude | noisy
    | cheap | fragile | clumsy | tedious | pointless | annoying | silly | stupid | shallow | pretentious | confusing |
    forgettable | wooden | lifeless | a waste of time | a waste of money | weak | too long | hard to follow | awkward |
    ugly | broken | dirty | tasteless | sluggish | unreliable | heavy-handed | sentimental | contrived | dreary |
    painful | irritating | disappointing | forced | flat
""")
SLOTS = {
    "s": SUBJECTS,
    "p": POSITIVE,
    "n": NEGATIVE,
    # merits
    "g": split_phrases("""
        laugh | surprise | thrill | fresh idea | memorable line | reason to see it | reason to buy it | spark | moment
        of tension | good scene | likeable character | redeeming feature | decent joke | hint of charm
    """),
    # flaws
    "b": split_phrases("""
        dull moment | false note | wasted scene | weak performance | boring page | slow minute | cheap joke | wrong step
        | thing to complain about | cliche | bad song | reason to stay away | flaw | regret
    """),
    # reactions to something good
    "e": split_phrases("""
        laugh | smile | care | care about anyone | believe a word of it | feel anything | enjoy it | like it | want to
        see more | want to see it again | feel moved | get involved | want to go back | have fun | find it funny | feel
        any suspense | learn anything | recommend it | forget the time | jump in my seat
    """),
    # reactions to something bad
    "d": split_phrases("""
        get bored | check the time | glance at the clock | think of leaving | lose interest | feel cheated | regret
        going | reach for my phone | want it to be over | yawn | feel the length | find it boring | want my money back |
        nod off | fidget | roll my eyes | count the minutes | want to stop | regret it | want to be anywhere else | skip
        a page | complain | feel disappointed | miss the original | mind the length | look at the clock | check my watch
        | look for the exit | think about dinner | doze | sigh | shake my head
    """),
    # people, "i" with a higher probability
    "w": split_phrases("i | i | i | we | anyone | my friends | the audience | my wife"),
}
FRAMES = split_phrases("""
    +not once did {w} {d} | -not once did {w} {e} | +at no point did {w} {d} | -at no point did {w} {e} | +{w} did not
    {d} | -{w} did not {e} | +{w} did n't {d} once | -{w} did n't {e} once | +never did {w} {d} | -never did {w} {e} |
    -it made me {d} | +it made me {e} | -{w} could not {e} | -more than once did {w} {d} | +not for a moment did {w} {d}
    | -not for a moment did {w} {e} | +{w} could not bring myself to {d} | +you wo n't {d} | -you wo n't {e} | +it is
    hard not to {e} | -it is hard not to {d} | -i tried not to {d} | +no one will {d} | -no one will {e} | +there is n't
    a {b} in it | -there is n't a {g} in it | +not a {b} | -not a single {g} | +not a single {b} | +there is hardly a
    {b} | -there is hardly a {g} | +without a {b} | -without a {g} | -i looked in vain for a {g} | +i looked in vain for
    a {b} | -{s} never gets {p} | +{s} never gets {n} | +{s} is never {n} | -{s} is never {p} | +{s} is anything but {n}
    | -{s} is n't {p} | -{s} is anything but {p} | -{s} is far from {p} | +{s} is far from {n} | +{s} could n't be more
    {p} | -{s} could n't be more {n} | -{s} could have been {p} | -{s} should have been {p} | -{s} would be {p} if it
    were shorter | +i feared {s} would be {n} , and i was wrong | -i hoped {s} would be {p} , and i was wrong | -{s}
    tries to be {p} | +i expected {s} to be {n} , but it was {p} | -i expected {s} to be {p} , but it was {n} | -{s}
    wants to be {p} | +{s} manages to be {p} without being {n} | -{s} manages to be {n} without being {p} | -too {n} to
    be {p} | +{s} was {n} at first , but then it was {p} | -{s} was {p} at first , but then it was {n} | -so {n} | +{s}
    may be {n} , but it is also {p} | -{s} may be {p} , but it is also {n} | +{s} is {n} and yet {p} | -{s} is {p} and
    yet {n} | +despite being {n} , {s} is {p} | -despite being {p} , {s} is {n} | -how {n} | +it is {n} in places ; i
    loved it anyway | -it is {p} in places ; i hated it anyway | +how {p} | +so {p} | +{s} is not only {p} but also {p}
    | -{s} is not only {n} but also {n} | +neither {n} nor {n} | -neither {p} nor {p} | +{s} is {p} , {p} and {p} | -{s}
    is {n} , {n} and {n} | +{p} , {p} , and never {n} | -{n} , {n} , and never {p} | +what looked {n} turned out to be
    {p} | -what looked {p} turned out to be {n} | +{s} was {p} | -{s} was {n} | +a {n} beginning and a {p} finish | -a
    {p} beginning and a {n} finish | +{n} at first , {p} in the end | -{p} at first , {n} in the end | +a {n} first half
    and a {p} second half | -a {p} idea with a {n} result | +not once is it {n} | -not once is it {p} | +at no point is
    it {n} | -at no point is it {p} | +{p} , not {n} | +i was sorry when it was over | -i was glad when it was over | -i
    was relieved when {s} was over | +i was sad when {s} was over | +i did not want {s} to stop | +i did n't want to
    leave | -i could n't wait to leave | -i could n't wait for {s} to be over | +i ca n't wait to go again | +{s} does
    not disappoint | -{s} disappoints | +i could n't put {s} down | -i could n't get through {s} | +i can not recommend
    {s} highly enough | -i can not recommend {s} | +i have never seen a better one | -i have never seen a worse one | -i
    've had better | +you wo n't find a better one | -you will find a better one anywhere | +it could n't be better |
    -it could n't be worse | -i would not do it again | +i would do it again tomorrow | -{s} does n't work | +{s} just
    works | +nothing is {n} | -nothing is {p} | +nothing about {s} is {n} | -nothing about {s} is {p} | +everything is
    {p} | -everything is {n} | -if only {s} were {p} | +{s} is {p} for once | -{s} lacks a {g} | +{s} avoids every {b} |
    -{s} is {n} , as usual | +{s} made me forget how {n} these things can be | -{s} made me remember how {p} these
    things can be | +the only problem with {s} is that it is over too soon | -the best thing about {s} is that it is
    short | -the only {p} thing is the poster | +the only {n} thing is the title | -{p} ? hardly | +{n} ? hardly | -{p}
    it is not | +{n} it is not | -people say {s} is {p} ; i say it is {n} | +people say {s} is {n} ; i say it is {p}
""")

# {0} is a subject, {1} a word or short phrase; the sign says whether the frame keeps (+) or negates (-) its label.
NEGATION_FRAMES = split_phrases("""
    +{0} is {1} | +{0} was {1} | +{0} was so {1} | +{0} seemed {1} | +{0} is quite {1} | +i found {0} {1} | +{0} is {1}
    | +{0} was {1} | -{0} is not {1} | -{0} is n't {1} | -{0} was not {1} | -{0} was n't {1} | -{0} is never {1} | -{0}
    is anything but {1} | -{0} is far from {1} | -{0} is not at all {1} | -not {1} | -{0} does n't seem {1} | -{0} is
    not {1} at all | -i did n't find it {1} | -no one will call it {1}
""")

# {1} decides the label.
CONTRAST_FRAMES = split_phrases("""
    {0} , but {1} | {0} , but {1} | {0} , yet {1} | although {0} , {1} | {0} ; however , {1} | while {0} , {1} | {1} ,
    even if {0} | {1} , although {0} | {0} . still , {1} | {0} . but {1} | {1} , despite {0}
""")

# Clauses by domain, each with the sign of its label.
CLAUSES = {
    "meal": split_phrases("""
        +the fish was cooked to perfection | +every course was better than the last | +the staff remembered our names |
        +the portions are huge | +we left full and happy | +the bread came warm from the oven | +our waiter could not do
        enough for us | +the sauce alone is worth the trip | +we wiped our plates clean | +the kitchen knows what it is
        doing | +they fitted us in without a booking | +the curry had real heat | +my kids asked to go back | +the best
        pizza in town | +the wine list is short and well chosen | +our table was ready on time | +seasoned just right |
        +the vegetables were fresh from the market | +we are going back next week | +the soup warmed us right through |
        +fair prices and big plates | +the chef came out to greet us | +the pastry was light and buttery | +the steak
        was tender and pink | -the soup was lukewarm | -we waited an hour for our drinks | -the chicken was raw in the
        middle | -they got our order wrong twice | -the chips were soaked in oil | -i found a hair in my salad | -there
        was a mistake in the bill | -nobody came to our table | -the meat was tough as leather | -it tasted of nothing |
        -we left hungry | -the bread was a day old | -i was sick the next morning | -the waiter rolled his eyes | -tiny
        portions at silly prices | -the rice was one sticky lump | -the kitchen had run out of everything | -the music
        was so loud that we could not talk | -the coffee tasted burnt | -we walked out before the main course |
        -over-salted and under-cooked | -the glasses were dirty | -the fish smelled off | -the cake was dry as sand
    """),
    "stay": split_phrases("""
        +the bed was so soft that i overslept | +the room was spotless | +they upgraded us for free | +breakfast had
        everything you could wish for | +the view took our breath away | +five minutes from the beach on foot | +the
        receptionist found us a taxi in seconds | +quiet as a library at night | +the shower was hot and strong | +fresh
        towels every day | +the pool was clean and never crowded | +we felt at home at once | +they kept our bags all
        day without a fuss | +we have already booked for next year | +the host baked us a cake | +check-in took a minute
        | +the garden is a little paradise | +thick walls and heavy curtains | +the driver was early and polite | +the
        guide knew every stone | +they held the train for us | -the walls are paper thin | -there was mould in the
        bathroom | -the sheets had stains on them | -the lift was out of order all week | -we could hear the traffic all
        night | -the air conditioning rattled and dripped | -the room smelled of smoke | -they lost our reservation |
        -the photos on the website are ten years old | -hidden fees at check-out | -the shower ran cold | -the carpet
        was sticky | -nobody answered the phone | -the pool was closed for repairs | -cockroaches in the kitchen | -they
        charged us twice | -the bed sagged in the middle | -the desk clerk never looked up from her screen | -our flight
        was cancelled without a word | -the bus left without us | -we asked for our money back and got a shrug
    """),
    "device": split_phrases("""
        +the battery lasts two days | +set up in five minutes | +it does exactly what it says on the box | +the picture
        is sharp and bright | +survived three drops without a scratch | +so quiet that i forget it is on | +it paired
        with my phone at once | +the keys feel solid | +charges in half an hour | +it replaced three gadgets on my desk
        | +still going strong after four years | +the instructions are clear | +worth every cent | +i bought a second
        one for my mother | +the zoom is amazing for the price | +it saved me hours | +support answered within the hour
        | +light enough to carry all day | +the update made it faster | +the handle fits my hand perfectly | +it cuts
        through anything | -the battery dies before lunch | -it stopped working after a week | -the screen cracked on
        the first day | -it gets hot enough to fry an egg | -the app crashes every time i open it | -half the buttons do
        nothing | -it arrived in pieces | -the charger melted | -it drops the connection all the time | -the manual
        might as well be in code | -the speakers hiss and crackle | -i sent it back the same day | -it leaks all over
        the counter | -the hinge snapped off | -support never wrote back | -the update broke everything | -it freezes
        twice an hour | -you can hear the fan in the next room | -it scratches if you look at it | -the lid does not
        close | -i had to buy the cable separately
    """),
    "wear": split_phrases("""
        +the shoes fit like a glove | +not a stitch out of place | +it arrived two days early | +the colour is even
        richer than in the picture | +i get compliments every time i wear it | +keeps me dry in the heaviest rain |
        +washed it ten times and it looks like new | +soft against the skin | +they replaced it without asking questions
        | +wrapped with care | +the shop assistant was patient and kind | +they mended it for nothing | +my order came
        with a hand-written note | +true to size | +the wool is thick and warm | +the zip glides | +the doctor took the
        time to listen | +they fixed my car in an hour and charged me half | -the sole came off in a month | -it shrank
        in the first wash | -the seams were already coming apart | -two sizes too small | -the colour ran and ruined my
        shirts | -it smells of plastic | -the parcel was left in the rain | -i am still waiting for my refund | -they
        sent the wrong one twice | -the zip jammed at once | -it itches like mad | -the fabric is thin as paper | -i was
        on hold for forty minutes | -they hung up on me | -the shop assistant ignored us | -the buttons fell off |
        -blisters after ten minutes | -the mechanic broke more than he fixed | -nobody told us about the delay | -it
        faded in a week
    """),
    "book": split_phrases("""
        +i read it in one sitting | +every sentence is a pleasure | +i stayed up until three to finish it | +the
        characters feel like old friends | +i have given copies to all my friends | +she writes with a light touch |
        +the twist caught me completely off guard | +i learned something on every page | +the last chapter broke my
        heart | +he makes a dry subject sing | +i turned back to page one at once | +her best work so far | +it stayed
        with me for weeks | +you can smell the sea on every page | +my daughter wants it read to her every night | +a
        voice you would follow anywhere | -i gave up after fifty pages | -the characters are made of cardboard | -he
        uses ten words where one would do | -i skipped whole chapters | -the twist is obvious from the first page |
        -full of spelling mistakes | -the plot goes nowhere | -i kept falling asleep over it | -all the women sound
        alike | -it reads like a first draft | -the middle sags badly | -she repeats herself on every page | -the ending
        comes out of nowhere and explains nothing | -i left it on the train and did not care | -padding from start to
        finish | -the dialogue made me wince
    """),
    "music": split_phrases("""
        +i have had it on repeat all week | +her voice gives me goosebumps | +every track is a winner | +the crowd sang
        along to every word | +the drums hit like thunder | +they played for three hours and nobody sat down | +a chorus
        that stays with you for days | +his guitar sings | +it gets better each time i hear it | +the harmonies are
        gorgeous | +the encore brought the house down | +we danced until our feet hurt | +the actors held us spellbound
        | +we stood and clapped for ten minutes | +you could have heard a pin drop | -the singer was off key all night |
        -every song sounds the same | -they played for thirty minutes and left | -the mix is a muddy mess | -the lyrics
        could have been written by a child | -she mumbles through half of it | -the bass drowned out everything | -i
        skipped to the end of every track | -the band looked half asleep | -autotune from start to finish | -the chorus
        grates after one listen | -we could not see the stage | -half the audience left at the interval | -the actors
        forgot their lines | -they recycled their old hits
    """),
    "film": split_phrases("""
        +i laughed until i cried | +the two hours flew by | +she steals every scene | +i would watch it again tonight |
        +the final scene left us speechless | +every frame is a painting | +you root for them from the first minute |
        +the whole theatre applauded | +he has never been better | +it grips you and does not let go | +the kids were
        glued to the screen | +it earns its tears | +a small film with a big heart | +the script crackles | +i walked
        out smiling | +the chemistry between them is electric | +i am still thinking about it days later | -i fell
        asleep halfway through | -the jokes land with a thud | -you can see the ending coming a mile off | -people
        around us were checking their phones | -the effects look like a school project | -he sleepwalks through the role
        | -two hours that felt like four | -we left before the end | -the plot has more holes than a sieve | -it drags
        on and on | -nobody in it talks like a human being | -the child actors grate | -i wanted to like it and could
        not | -a trailer stretched to feature length | -the camera shakes until you feel sick | -it wastes a great cast
        | -the sequel nobody asked for
    """),
}

# Nouns of the film domain, and nouns of other domains, one domain per phrase, that replace them.
FILM_NOUNS = re.compile(
    r"\b(films?|movies?|picture|story|script|screenplay|plot|cast|actors?|director|scenes?|comedy|drama|thriller|"
    r"romance|documentary|sequel|characters?|cinema|acting|performances?|direction|dialogue)\b"
)
DOMAIN_NOUNS = split_phrases("""
    meal dinner soup pizza dish menu food dessert wine sauce kitchen chef restaurant |
    hotel room trip beach breakfast staff view bed city tour service pool flight |
    phone laptop camera battery screen app speaker printer charger kettle design tool |
    jacket shoes dress coat fabric bag shop delivery price quality seller repair |
    book novel chapter author prose pages poem writing narrator series |
    album song band singer voice concert lyrics track show guitar play stage
""")
