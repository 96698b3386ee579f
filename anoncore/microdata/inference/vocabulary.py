"""The words, codes and patterns from which kinds, roles and missing codes are guessed."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    """Return the words of ``text``, in which an underscore stands for a space."""
    return frozenset(word.replace("_", " ") for word in text.split())


MISSING_TEXTS = _words(
    "na n/a n.a. #n/a nan null none nil . .. - -- ? missing unknown refused dk don't_know no_answer not_available "
    "not_applicable"
)
MISSING_CODES = frozenset(
    sign * v
    for v in (7, 8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99998, 99999, 999999)
    for sign in (1, -1)
) | {-1, -2, -3, -4, -5, -6}

IDENTIFIER = _words(
    "id ids uid uuid guid pid oid idno idnr idnum idcode idnumber caseid recordid personid patientid respondentid "
    "subjectid studyid unitid companyid firmid enterpriseid establishmentid utilityid hospitalid customerid clientid "
    "memberid userid rownames rowname rownumber rownum rownr rowid recordnumber recordno recno obsnumber obsno "
    "serialnumber serialno seqn ssn sin nin nino nric bsn cpf curp dni nif ahv pesel mrn iban "
    "passport licence license plate vin username login email mail"
)
# The person, or other unit, that a column of many numbers or texts is about.
ONE_UNIT = _words("individual person subject respondent participant patient pupil student worker employee customer")
# Never released, but shared by people who have nothing to do with each other.
PERSONAL = _words(
    "name names firstname forename lastname surname fullname phone telephone tel mobile cellphone fax address addr "
    "street url website ip latitude longitude lat lon lng gps coordinates comment comments remark remarks note notes "
    "freetext verbatim signature"
)
HOUSEHOLD = _words(
    "household householdid householdnumber hhid hhno hhnr hhnum hid family familyid famid dwelling dwellingid"
)
AREA = _words(
    "area areacode state county province district municipality commune canton ward parish tract nuts lsoa msoa puma "
    "fips metro bundesland departement village town city geo geocode territory"
)
# Household columns that count or weigh, and do not say which household it is.
NO_HOUSEHOLD = _words(
    "size income type head members persons weight weights wgt wt wts history hist tenure status rooms relationship "
    "relation composition expenditure food owner own"
)
WEIGHT = _words(
    "pweight fweight aweight iweight wgt wgtp pwgtp fnlwgt finalwt perwt hhwt asecwt pspwght anweight dweight "
    "designweight sampleweight samplingweight surveyweight finalweight personweight householdweight popweight "
    "calibrationweight grossingfactor expansionfactor statweight"
)
# Of a sample before it is adjusted: where there is another weight, that one stands for the population.
DESIGN_WEIGHT = _words("dweight designweight samplingweight")
# Body weights are called so as well; their values decide.
PERHAPS_WEIGHT = _words("weight weights wt wts w wght pond ponderation factor fexp expansion ipw")
WEIGHS_A_SAMPLE = _words("sampling sample survey household hh person design base final replicate population jackknife")
BODY_UNITS = _words("gm gms gram grams kg kgs kilo oz ounce ounces lb lbs pound pounds birth bw baby")
BODY = _words("height ht bmi waist stature length headcirc bodyweight")
DESIGN = _words("psu strata stratum stra cluster clusters sdmvpsu sdmvstra vpsu vstrat vstratum segment")
# What is reported for an area or a group is not the area.
RATES = _words("mpg mileage rate pct percent share ratio mean avg ave")
# What is counted or measured has an order, whatever else the name says.
MEASURED = RATES | _words(
    "age num number count counts n no nr times days weeks months years hours hrs mins minutes score size amount "
    "total first last index level levels grade rank rating"
)
QUASI = _words(
    "age agegroup sex gender race ethnic ethnicity birth birthday birthdate birthyear birthmonth birthplace dob yob "
    "born marital maritalstatus marstat married education educ school schooling degree qualification occupation occ "
    "job profession department industry sector nationality citizenship citizen country region zip zipcode postcode "
    "postal plz maried maritl husband wife spouse male female black white nonwhite nwhite hispanic hispan asian afam "
    "minority language migrant migration children kids height ht weight wt date year month day died death deathyear"
)
SENSITIVE = _words(
    "income salary wage wages earnings wealth debt benefit benefits disease diagnosis icd hiv aids cancer diabetes "
    "drug drugs alcohol smoke smoking smoker religion faith politics political party vote union sexual orientation "
    "crime criminal conviction disability disabled health pregnancy pregnancies pregnant abortion depression mental "
    "medication treatment cholesterol chol bmi sbp dbp hbp highbp hypertension asthma bronchitis tb tuberculosis "
    "hepatitis colitis ulcer pepticulcer tumor tumour stroke angina glucose insulin diabetic illness ill suicide "
    "disab disable drink drinks drinking cigs cigarettes marijuana arrest arrests convicted jail prison medicaid "
    "welfare poverty inc earn earns hourlywage savings orientation"
)
# Before a word, whose value it is, or a transformed one: fincome, huswage, lwage.
PREFIXES = tuple(_words("l ln log h hh hr hus husb fam f m d w wife mom dad moth fath mother father parent pre tot"))
# After a letter it is another word: hill, mill, fill.
UNPREFIXED = _words("ill")
AMOUNT = _words(
    "income salary wage wages earnings amount price cost costs revenue turnover sales tax taxes expenditure spending "
    "assets debt wealth value total sum profit loss balance payment rent budget weight population count expend exp "
    "spending savings sav pay gdp pop volume vol area distance charge charges fee loan mortgage capital"
)
UNORDERED = AREA | _words(
    "sex gender race ethnic ethnicity marital maritalstatus marstat country region nationality "
    "citizenship occupation occ job profession industry sector religion language type kind category code birthplace "
    "party reason cause group arm site center centre hospital zip zipcode postcode postal plz method source status "
    "relationship relation relat rel relhead civil hhcivil walls wall roof floor water fuel toilet lighting material "
    "heating housing tenure mode nation ethn firm company brand precinct sic naics isic nace noga ateco anzsic ssic "
    "isco anzsco cbsa icd"
)
# What groups of records are numbered by, alone or with one of the words after it.
GROUPS = _words(
    "school sch class classroom teacher mother mom mum father dad parent sibship litter comm community neighborhood "
    "neighbourhood cluster block clinic hospital doctor physician practice provider interviewer enumerator firm "
    "company branch plant site centre center court judge team club"
)
NUMBERED = _words("id ids nr no num number code cd idx")
DATE_PARTS = _words("date year month day")
# With one record of each unit per point in time, a table is a panel.
TIMES = _words("year month quarter week day date wave round visit period time yr qtr semester season")
TOTALS = _words("total tot sum gross all overall combined")
DIFFERENCES = _words(
    "diff difference change delta net gain loss balance margin profit growth surplus deficit exper experience"
)

SCALES = tuple(
    scale.split("|")
    for scale in (
        "none|very low|low|medium|moderate|high|very high",
        "never|rarely|seldom|sometimes|occasionally|often|usually|always",
        "very poor|poor|bad|fair|good|very good|excellent",
        "very bad|bad|fair|good|very good",
        "strongly disagree|disagree|neutral|neither agree nor disagree|agree|strongly agree",
        "very dissatisfied|dissatisfied|neutral|satisfied|very satisfied",
        "not at all|a little|somewhat|moderately|very|extremely",
        "xs|s|m|l|xl|xxl",
        "small|medium|large",
        "daily|weekly|monthly|yearly|never",
        "primary|secondary|tertiary",
    )
)

# What texts look like, and whether equal ones are of one person; None where only texts that do not repeat are.
TEXT_PATTERNS = (
    (re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "looks like e-mail addresses", True),
    (re.compile(r"(https?://|www\.)\S+"), "looks like web addresses", None),
    (re.compile(r"\d{1,3}(\.\d{1,3}){3}"), "looks like network addresses", None),
    (re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"), "looks like generated keys", True),
    (
        re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?"),
        "holds dates; write them by ISO 8601 (2024-12-31), or turn them into a year, and give it another role",
        False,
    ),
    (
        re.compile(r"-?\d{1,3}([.\s]\d{3})*,\d+|-?\d+,\d+"),
        "holds numbers with a comma; state the decimal sign of the source and give the column another role",
        False,
    ),
    (
        re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(\s?[apAP]\.?[mM]\.?)?"),
        "holds times of day; write them by ISO 8601 (23:59:59) and give it another role",
        False,
    ),
    (re.compile(r"\+?[\d\s()/-]{7,}"), "looks like telephone or account numbers", None),
)
